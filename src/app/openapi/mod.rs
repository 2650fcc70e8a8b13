//! The documents of the public API and of the operators': OpenAPI 3.1, written by the program and checked in.
//!
//! `catraca openapi` prints one, docs/openapi.json and docs/openapi-admin.json are what it printed last; each
//! listener serves its file at /openapi.json, and a test holds them equal. The public one speaks of the
//! gateway's own routes and of those of the shop that comes with Catraca; what other upstreams answer is
//! theirs.

pub mod bodies;
pub mod desk;
pub mod views;

mod operations;
mod operators;

use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItem, PathsBuilder,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    Components, ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Required,
    Response, ResponseBuilder, SecurityRequirement,
};

use crate::app::openapi::operations::{Asker, Carries, Operation};

/// A document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// What fans ask the gateway.
    Public,
    /// What operators ask their own listener.
    Operators,
}

impl Api {
    /// The document as it is checked in.
    pub fn text(self) -> String {
        let mut text = self
            .document()
            .to_pretty_json()
            .expect("a document has only text keys");
        text.push('\n');
        text
    }

    fn document(self) -> OpenApi {
        let mut paths = PathsBuilder::new();
        for operation in self.operations() {
            paths = paths.path(operation.path, item(operation, self.refused_anywhere()));
        }
        let (title, what) = match self {
            Self::Public => (
                "Catraca",
                "A waiting room and the shop behind it: join, wait, come in, buy.",
            ),
            Self::Operators => (
                "Catraca for operators",
                "Shows and their states, journeys of orders, dead letters.",
            ),
        };
        let info = InfoBuilder::new().title(title).version("1");
        OpenApiBuilder::new()
            .info(info.description(Some(what)))
            .paths(paths)
            .components(Some(match self {
                Self::Public => public(),
                Self::Operators => operators(),
            }))
            .build()
    }

    const fn operations(self) -> &'static [Operation] {
        match self {
            Self::Public => operations::OPERATIONS,
            Self::Operators => operators::OPERATIONS,
        }
    }

    const fn refused_anywhere(self) -> &'static [&'static str] {
        match self {
            Self::Public => operations::REFUSED_ANYWHERE,
            Self::Operators => operators::REFUSED_ANYWHERE,
        }
    }
}

macro_rules! with_schemas {
    ($builder:expr, $($name:ty),* $(,)?) => {
        $builder$(.schema_from::<$name>())*
    };
}

/// What both have.
fn components() -> ComponentsBuilder {
    let document = ObjectBuilder::new().schema_type(Type::Object);
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let components = ComponentsBuilder::new()
        .schema("Document", RefOr::T(Schema::Object(document.build())))
        .security_scheme("bearer", bearer);
    with_schemas!(
        components,
        bodies::Problem,
        bodies::Money,
        bodies::OrderStatus
    )
}

fn public() -> Components {
    let header = |name: &str, what: &str| {
        SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description(name, what)))
    };
    let components = components()
        .security_scheme(
            "pass",
            header(
                "X-Catraca-Pass",
                "The pass of a join; a cookie carries it too.",
            ),
        )
        .security_scheme(
            "ticket",
            header(
                "X-Admission-Ticket",
                "The ticket of a status; a cookie carries it too.",
            ),
        );
    with_schemas!(
        components,
        bodies::TooMany,
        bodies::Eta,
        bodies::Joined,
        bodies::Status,
        bodies::Ticket,
        bodies::Receipt,
        bodies::Jwks,
        bodies::Board,
        bodies::Gap,
        bodies::Spread,
        bodies::Stock,
        bodies::Poll,
        bodies::Seats,
        bodies::HoldRequest,
        bodies::Hold,
        bodies::OrderRequest,
        bodies::Customer,
        bodies::PaymentRequest,
        bodies::Order,
        bodies::Orders,
    )
    .build()
}

fn operators() -> Components {
    with_schemas!(
        components(),
        desk::Shows,
        desk::Show,
        desk::ShowSettings,
        desk::Section,
        desk::ShowChange,
        desk::Room,
        desk::RoomStock,
        desk::Draw,
        desk::BeaconRequest,
        desk::CancelRequest,
        desk::RevokeRequest,
        desk::Revoked,
        desk::Cancellation,
        views::Availability,
        views::Sales,
        views::Joins,
        desk::Journey,
        desk::DeadLetters,
        desk::DeadLetter,
        desk::Replayed,
        desk::Quarantine,
        desk::Quarantined,
        desk::Released,
    )
    .build()
}

fn item(operation: &Operation, refused_anywhere: &[&str]) -> PathItem {
    let method = match operation.method {
        "POST" => HttpMethod::Post,
        "PUT" => HttpMethod::Put,
        "PATCH" => HttpMethod::Patch,
        "DELETE" => HttpMethod::Delete,
        _ => HttpMethod::Get,
    };
    let mut built = OperationBuilder::new()
        .operation_id(Some(operation.id))
        .summary(Some(operation.summary));
    for name in placeholders(operation.path) {
        built = built.parameter(in_path(name));
    }
    if let Some((name, what)) = operation.query {
        built = built.parameter(in_query(name, what));
    }
    for header in operation.headers {
        built = built.parameter(in_header(header));
    }
    if let Some(body) = operation.takes {
        let body = RequestBodyBuilder::new()
            .content("application/json", json(body))
            .required(Some(Required::True));
        built = built.request_body(Some(body.build()));
    }
    for (status, carries) in operation.answers {
        built = built.response(*status, answer(status, *carries));
    }
    for status in refused_anywhere.iter().chain(operation.refuses) {
        let in_page = operation.refuses_in_page.contains(status);
        built = built.response(*status, refusal(status, in_page));
    }
    for requirement in security(operation.asker) {
        built = built.security(requirement);
    }
    PathItem::new(method, built)
}

fn placeholders(path: &str) -> impl Iterator<Item = &str> {
    path.split('/')
        .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
}

fn in_path(name: &str) -> Parameter {
    let text = ObjectBuilder::new().schema_type(Type::String);
    let example = match name {
        "show" => Some("stadium-show".into()),
        "verb" => Some("open".into()),
        _ => None,
    };
    let text = match name {
        "verb" => text.enum_values(Some(["open", "pause", "resume", "close", "off"])),
        "id" => ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0)),
        "show" => text.pattern(Some("^[a-z0-9]([a-z0-9-]{0,62})$")),
        "hold" | "order" => text.format(Some(SchemaFormat::Custom("uuid".to_owned()))),
        _ => text,
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(text))
        .example(example)
        .build()
}

fn in_query(name: &str, what: &str) -> Parameter {
    let schema = match name {
        "serving" => ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0)),
        _ => ObjectBuilder::new().schema_type(Type::String),
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .description(Some(what))
        .schema(Some(schema))
        .build()
}

fn in_header(header: &operations::Header) -> Parameter {
    let text = ObjectBuilder::new().schema_type(Type::String);
    ParameterBuilder::new()
        .name(header.name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(header.what))
        .schema(Some(text.pattern(Some(header.pattern))))
        .build()
}

/// A problem. Of one that asks for patience, how much is told in headers.
fn refusal(status: &str, in_page: bool) -> Response {
    let mut problem = ResponseBuilder::new().description("A problem");
    if in_page {
        problem = problem.content("text/html", text());
    }
    if status != "429" {
        return problem
            .content("application/problem+json", json("Problem"))
            .build();
    }
    let told = |kind: Type, what: &str| {
        let schema = ObjectBuilder::new().schema_type(kind);
        let header = HeaderBuilder::new().schema(Some(schema.build()));
        header.description(Some(what)).build()
    };
    let problem = problem
        .header(
            "Retry-After",
            told(Type::Integer, "Ask again after so many seconds."),
        )
        .header(
            "RateLimit-Policy",
            told(
                Type::String,
                "The limit: `\"join\";q=60;w=6` is 60 within 6 seconds.",
            ),
        )
        .header(
            "RateLimit",
            told(
                Type::String,
                "What is left of it: `\"join\";r=0;t=1` is none, and more in 1 s.",
            ),
        );
    problem
        .content("application/problem+json", json("TooMany"))
        .build()
}

fn answer(status: &str, carries: Carries) -> Response {
    let description = match status {
        "201" => "Done",
        "202" => "Begun",
        "204" => "Done, or done before",
        "303" => "Look there",
        _ => "As it stands",
    };
    let response = ResponseBuilder::new().description(description);
    match carries {
        Carries::Nothing => response,
        Carries::Json(name) => response.content("application/json", json(name)),
        Carries::Html => response.content("text/html", text()),
        Carries::File => response.content("*/*", text()),
    }
    .build()
}

fn text() -> utoipa::openapi::Content {
    ContentBuilder::new()
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}

fn json(name: &str) -> utoipa::openapi::Content {
    ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(name)))
        .build()
}

fn security(asker: Asker) -> Vec<SecurityRequirement> {
    let none: [&str; 0] = [];
    let pass = || SecurityRequirement::new("pass", none);
    match asker {
        Asker::Anybody => Vec::new(),
        Asker::Fan => vec![pass(), SecurityRequirement::new("bearer", none)],
        Asker::Entrant => vec![pass().add("ticket", none)],
        Asker::Operator => vec![SecurityRequirement::new("bearer", none)],
    }
}
