//! What is asked of a server, and how it is said on a connection.

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, Value};

use crate::driver::redis::fault::RedisError;
use crate::driver::redis::{Input, Script};

/// What is asked of a server.
#[derive(Debug, Clone, Copy)]
pub(super) enum Call<'a> {
    Script(&'a Script, &'a Input),
    Command(&'a Cmd),
}

/// Whether a server is asked for what it has, or for what another has sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Straight,
    Asking,
}

/// By the hash; where the server has forgotten the script, by its text, which it then keeps.
pub(super) async fn run(
    connection: &mut MultiplexedConnection,
    call: Call<'_>,
    way: Way,
) -> Result<Value, RedisError> {
    let (script, input) = match call {
        Call::Command(command) => return Ok(send(connection, command, way).await?),
        Call::Script(script, input) => (script, input),
    };
    let by_hash = eval("EVALSHA", &script.hash, input);
    match send(connection, &by_hash, way).await {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            let by_text = eval("EVAL", &script.text, input);
            Ok(send(connection, &by_text, way).await?)
        }
        answer => Ok(answer?),
    }
}

async fn send(
    connection: &mut MultiplexedConnection,
    command: &Cmd,
    way: Way,
) -> RedisResult<Value> {
    match way {
        Way::Straight => command.query_async(connection).await,
        Way::Asking => {
            // Both in one write: nobody else's command may come between them.
            let mut both = redis::pipe();
            both.cmd("ASKING").add_command(command.clone());
            let answers = connection.req_packed_commands(&both, 0, 2).await?;
            let answer = answers.into_iter().next_back().unwrap_or(Value::Nil);
            answer.extract_error()
        }
    }
}

fn eval(verb: &str, script: &str, input: &Input) -> Cmd {
    let mut command = redis::cmd(verb);
    command.arg(script).arg(input.keys.len());
    command.arg(&input.keys);
    for arg in &input.args {
        command.arg(arg.as_slice());
    }
    command
}
