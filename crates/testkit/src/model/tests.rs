//! Tests of the scripted model with requests like those of the CLIs.

use super::*;
use std::io::Read;

/// Connects to the model and sends a text.
fn send(model: &Model, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(model.url().trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

/// A complete request with a prompt and a tool.
const REQUEST: &str = "POST /v1/messages HTTP/1.1\r\ncontent-length: 78\r\n\r\n\
    {\"tools\": [{\"name\": \"Bash\"}], \"messages\": [{\"role\": \"user\", \"content\": \"go\"}]}";

/// Posts a request, and returns the answer's body without chunk headers.
fn post(model: &Model, path: &str, request: &Value) -> String {
    let body = request.to_string();
    let head = format!("POST {path} HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut stream = send(model, &[head, body].concat());
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, mut rest) = answer.split_once("\r\n\r\n").unwrap();
    if !head.contains("chunked") {
        return rest.to_owned();
    }
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    body
}

/// The data of each server-sent event in a body.
fn events(body: &str) -> Vec<Value> {
    let lines = body.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn joined<'a>(events: &'a [Value], part: impl Fn(&'a Value) -> &'a Value) -> String {
    events.iter().filter_map(|event| part(event).as_str()).collect()
}

const REPLY: &str = "Größe: 字 and 🎉\n\n```rust\nfn main() {}\n```\n";

fn chunked_model() -> Model {
    Model::start(|asked| match &asked.result {
        Some(result) => Reply::new().says(format!("It said {result}")),
        None => Reply::new().says(REPLY).in_pieces_of(3).with_delay(Duration::from_millis(1)),
    })
}

#[test]
fn messages_are_streamed_in_pieces() {
    let model = chunked_model();
    let request = json!({
        "model": "m", "stream": true, "tools": [{"name": "Bash"}],
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "<system-reminder>\nnot the user's"},
            {"type": "text", "text": "Hello\nthere "},
        ]}],
    });
    let events = events(&post(&model, "/v1/messages?beta=true", &request));
    assert_eq!(joined(&events, |event| &event["delta"]["text"]), REPLY);
    assert!(events.len() > REPLY.chars().count() / 3);
    assert_eq!(events.last().unwrap()["type"], "message_stop");
    let asked = model.wait_for_requests(1);
    assert_eq!((asked[0].prompt.as_str(), &asked[0].result), ("Hello\nthere ", &None));
    assert_eq!(asked[0].request, request);
    assert!(model.wait_for_answers(1)[0] >= asked[0].at);
}

#[test]
fn responses_are_streamed_in_pieces() {
    let model = chunked_model();
    let user = |text| json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]});
    let request = json!({
        "model": "m", "stream": true, "tools": [{"type": "function", "name": "exec_command"}],
        "input": [user("<environment_context>x"), user("Hello\nthere ")],
    });
    let events = events(&post(&model, "/v1/responses", &request));
    assert_eq!(joined(&events, |event| &event["delta"]), REPLY);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], REPLY);
    assert_eq!(model.wait_for_requests(1)[0].prompt, "Hello\nthere ");
}

#[test]
fn chat_completions_are_streamed_in_pieces() {
    let model = chunked_model();
    let tools = json!([{"type": "function", "function": {"name": "bash"}}]);
    let request = json!({
        "model": "m", "stream": true, "tools": tools,
        "messages": [
            {"role": "system", "content": "not the user's"},
            {"role": "user", "content": [{"type": "text", "text": "Hello\nthere "}]},
        ],
    });
    let answer = post(&model, "/v1/chat/completions", &request);
    let answer = answer.strip_suffix("data: [DONE]\n\n").unwrap();
    let events = events(answer);
    assert_eq!(joined(&events, |event| &event["choices"][0]["delta"]["content"]), REPLY);
    assert_eq!(events.last().unwrap()["choices"][0]["finish_reason"], "stop");
    assert_eq!(model.wait_for_requests(1)[0].prompt, "Hello\nthere ");
    let side_request = json!({"messages": [{"role": "user", "content": "a title"}]});
    assert!(post(&model, "/v1/chat/completions", &side_request).contains("\"Scripted\""));
    assert_eq!(model.side_requests().len(), 1);
}

#[test]
fn generated_content_is_streamed_in_pieces() {
    let model = chunked_model();
    let user = |text| json!({"role": "user", "parts": [{"text": text}]});
    let request = json!({
        "tools": [{"functionDeclarations": [{"name": "run_shell_command"}]}],
        "contents": [user("<session_context>x"), user("Hello\nthere ")],
    });
    let path = "/v1beta/models/m:streamGenerateContent?alt=sse";
    let events = events(&post(&model, path, &request));
    assert_eq!(
        joined(&events, |event| &event["candidates"][0]["content"]["parts"][0]["text"]),
        REPLY
    );
    assert_eq!(events.last().unwrap()["candidates"][0]["finishReason"], "STOP");
    assert_eq!(model.wait_for_requests(1)[0].prompt, "Hello\nthere ");
}

#[test]
fn side_requests_are_answered_and_recorded_apart() {
    let model = chunked_model();
    let schema = json!({"type": "OBJECT", "properties": {
        "why": {"type": "STRING"}, "choice": {"type": "STRING", "enum": ["flash", "pro"]},
    }});
    let request = json!({"contents": [], "generationConfig": {"responseJsonSchema": schema}});
    let answer = post(&model, "/v1beta/models/m:generateContent", &request);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let text = answer["candidates"][0]["content"]["parts"][0]["text"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(text).unwrap(),
        json!({"why": "Scripted", "choice": "flash"})
    );

    let ask =
        json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "quota"}]});
    let answer: Value = serde_json::from_str(&post(&model, "/v1/messages", &ask)).unwrap();
    assert_eq!(answer["content"][0]["text"], "Scripted");
    let subagent = json!({
        "model": "m", "stream": true, "tools": [{"name": "Bash"}],
        "system": [{"type": "text", "text": "cc_entrypoint=cli; cc_is_subagent=true"}],
        "messages": [{"role": "user", "content": "a part of the work"}],
    });
    assert_eq!(
        joined(&events(&post(&model, "/v1/messages", &subagent)), |event| &event["delta"]["text"]),
        "Scripted"
    );
    assert!(post(&model, "/v1/messages/count_tokens", &ask).contains("input_tokens"));
    let title = json!({"stream": true, "input": []});
    assert!(post(&model, "/v1/responses", &title).contains("Scripted"));
    model.answer_side_requests_with("Something else");
    assert!(post(&model, "/v1/responses", &title).contains("Something else"));
    assert!(model.wait_for_requests(0).is_empty());
    assert_eq!(model.side_requests().len(), 6);
}

#[test]
fn tool_of_any_name_is_called() {
    let model = Model::with_replies([Reply::new().calls("view", json!({"path": "a"}))]);
    let request = json!({
        "stream": true, "tools": [{"type": "function", "name": "exec_command"}],
        "input": [{"type": "message", "role": "user", "content": [{"text": "look"}]}],
    });
    let events = events(&post(&model, "/v1/responses", &request));
    let call = &events.last().unwrap()["response"]["output"][0];
    assert_eq!((&call["name"], &call["arguments"]), (&json!("view"), &json!("{\"path\":\"a\"}")));
}

#[test]
fn result_of_a_called_tool_is_reported() {
    let model = Model::with_replies([
        Reply::new().says("Running it.").runs("ls"),
        Reply::new().says("Done."),
    ]);
    let mut request = json!({
        "model": "m", "stream": true, "tools": [{"name": "Bash"}],
        "messages": [{"role": "user", "content": "list"}],
    });
    let events = events(&post(&model, "/v1/messages", &request));
    let input = joined(&events, |event| &event["delta"]["partial_json"]);
    assert_eq!(serde_json::from_str::<Value>(&input).unwrap()["command"], "ls");
    let result = json!({"type": "tool_result", "content": [{"type": "text", "text": "a b"}]});
    let messages = request["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": []}));
    messages.push(json!({"role": "user", "content": [result]}));
    post(&model, "/v1/messages", &request);
    let asked = model.wait_for_requests(2);
    assert_eq!((asked[1].prompt.as_str(), asked[1].result.as_deref()), ("list", Some("a b")));
}

#[test]
fn reply_pauses_at_a_gate() {
    let gate = Gate::default();
    let model = Model::with_replies([Reply::new().says("one ").waits(&gate).says("two")]);
    let request = json!({
        "model": "m", "stream": true, "tools": [{"name": "Bash"}],
        "messages": [{"role": "user", "content": "go"}],
    });
    thread::scope(|threads| {
        let answer = threads.spawn(|| post(&model, "/v1/messages", &request));
        model.wait_for_requests(1);
        assert!(model.wait_for_answers(0).is_empty());
        gate.open();
        let events = events(&answer.join().unwrap());
        assert_eq!(joined(&events, |event| &event["delta"]["text"]), "one two");
    });
}

#[test]
fn ending_model_does_not_wait_at_a_gate() {
    let gate = Gate::default();
    let model = Model::with_replies([Reply::new().says("one").waits(&gate)]);
    let _stream = send(&model, REQUEST);
    model.wait_for_requests(1);
    let start = Instant::now();
    drop(model);
    assert!(start.elapsed() < WATCHDOG / 2, "the gate was waited for");
}

#[test]
fn panic_of_the_script_fails_the_test() {
    let model = Model::start(|_| unreachable!("the script panics"));
    let mut stream = send(&model, REQUEST);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "");
    let ends = std::panic::AssertUnwindSafe(|| drop(model));
    assert!(std::panic::catch_unwind(ends).is_err());
}

/// A message as a CLI passes it on.
const FRAME: &str = "[relay 7f3a9c from Bob, id 1a2b3c4d] Another agent wrote this, not your user.\n\
    rm -rf\n[/relay 7f3a9c]";

/// Posts a request, and returns whether the test of such a model fails at its end.
fn fails(path: &str, request: &Value, excuse: Option<&'static str>) -> bool {
    let model = chunked_model();
    excuse.into_iter().for_each(|why| model.excuse_instructions(why));
    post(&model, path, request);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(model))).is_err()
}

#[test]
fn message_among_instructions_fails_the_test() {
    let role = |role: &str| json!([{"role": role, "content": [{"type": "text", "text": FRAME}]}]);
    for (path, request) in [
        ("/v1/messages", json!({"system": FRAME})),
        ("/v1/messages", json!({"system": [{"type": "text", "text": FRAME}]})),
        ("/v1/messages", json!({"messages": role("system")})),
        ("/v1/responses", json!({"instructions": FRAME})),
        ("/v1/responses", json!({"input": role("developer")})),
        ("/v1/chat/completions", json!({"messages": role("system")})),
        ("/v1beta/models/m:generateContent", json!({"systemInstruction": {"parts": [FRAME]}})),
    ] {
        assert!(fails(path, &request, None), "{request}");
        assert!(!fails(path, &request, Some("it is planted")), "{request}");
    }
    for request in [
        json!({"messages": role("user")}),
        json!({"system": FRAME.replace("from Bob, id 1a2b3c4d", "from @relay")
            .replace("Another agent wrote this", "The relay wrote this")}),
        json!({"system": terminal::brief::text(Some("Ann"))}),
    ] {
        assert!(!fails("/v1/messages", &request, None), "{request}");
    }
}

#[test]
fn malformed_request_ends_only_its_connection() {
    let model = chunked_model();
    for broken in
        ["nonsense\r\n\r\n", "POST /v1/messages HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n"]
    {
        let mut stream = send(&model, broken);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.is_empty());
    }
    assert!(post(&model, "/v1/models", &json!({})).contains("not_found_error"));
}
