//! The document of the public API: OpenAPI 3.1, written by the program and checked in.
//!
//! `catraca openapi` prints it, docs/openapi.json is what it printed last, the gateway serves that file
//! and a test holds the two equal. It speaks of the gateway's own routes and of those of the shop that
//! comes with Catraca; what other upstreams answer is theirs.

pub mod bodies;
mod operations;

use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItem, PathsBuilder,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Required, Response,
    ResponseBuilder, SecurityRequirement,
};

use crate::app::openapi::operations::{Asker, Carries, OPERATIONS, Operation, REFUSED_ANYWHERE};

/// The document as it is checked in.
pub fn text() -> String {
    let mut text = document()
        .to_pretty_json()
        .expect("a document has only text keys");
    text.push('\n');
    text
}

fn document() -> OpenApi {
    let mut paths = PathsBuilder::new();
    for operation in OPERATIONS {
        paths = paths.path(operation.path, item(operation));
    }
    let info = InfoBuilder::new()
        .title("Catraca")
        .version("1")
        .description(Some(
            "A waiting room and the shop behind it: join, wait, come in, buy.",
        ));
    OpenApiBuilder::new()
        .info(info)
        .paths(paths)
        .components(Some(components()))
        .build()
}

fn components() -> utoipa::openapi::Components {
    let header = |name: &str, what: &str| {
        SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description(name, what)))
    };
    macro_rules! with_schemas {
        ($builder:expr, $($name:ident),*) => {
            $builder$(.schema_from::<bodies::$name>())*
        };
    }
    let document = ObjectBuilder::new().schema_type(Type::Object);
    let components = ComponentsBuilder::new()
        .schema("Document", RefOr::T(Schema::Object(document.build())))
        .security_scheme(
            "pass",
            header(
                "X-Catraca-Pass",
                "The pass of a join; a cookie carries it too.",
            ),
        )
        .security_scheme(
            "bearer",
            SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)),
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
        Problem,
        TooMany,
        Eta,
        Joined,
        Status,
        Ticket,
        Receipt,
        Jwks,
        Board,
        Gap,
        Spread,
        Stock,
        Poll,
        Money,
        Seats,
        HoldRequest,
        Hold,
        OrderRequest,
        Customer,
        PaymentRequest,
        Order,
        OrderStatus,
        Orders
    )
    .build()
}

fn item(operation: &Operation) -> PathItem {
    let method = match operation.method {
        "POST" => HttpMethod::Post,
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
    for status in REFUSED_ANYWHERE.iter().chain(operation.refuses) {
        built = built.response(*status, refusal(status));
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
    let example = (name == "show").then(|| "stadium-show".into());
    let text = match name {
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
fn refusal(status: &str) -> Response {
    let problem = ResponseBuilder::new().description("A problem");
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
    let text =
        || ContentBuilder::new().schema(Some(ObjectBuilder::new().schema_type(Type::String)));
    match carries {
        Carries::Nothing => response,
        Carries::Json(name) => response.content("application/json", json(name)),
        Carries::Html => response.content("text/html", text()),
        Carries::File => response.content("*/*", text()),
    }
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
    }
}
