import CallBus
import CallWire
import NATSBus
import Testing

@Suite struct ParsingTests {
  @Test func parsesWhatJetStreamAnswers() throws {
    let text = """
      { "type":"x", "error":{"code":400,"err_code":10071,"description":"wrong \\"last\\" \\u00e9\\ud83d\\ude00"},
        "list":[1,-2.5e3,true,false,null,[]], "seq":18446744073709551615, "empty":{} }
      """
    let json = try #require(JSONValue(parsing: Array(text.utf8)))
    #expect(json["error"]?["err_code"]?.unsigned == 10071)
    #expect(json["error"]?["description"]?.text == "wrong \"last\" é😀")
    #expect(json["seq"]?.unsigned == .max)
    #expect(
      json["list"]
        == .array([
          .number("1"), .number("-2.5e3"), .bool(true), .bool(false), .null, .array([]),
        ]))
    #expect(json["empty"] == .object([:]))
    #expect(json["missing"] == nil)
  }

  @Test(arguments: [
    "", "{", "[1,", "{\"a\"}", "{\"a\":}", "\"open", "tru", "1 2", "{\"a\":1,}x", "\"\\u12\"",
    "\"\\ud800\"", "\"\\", String(repeating: "[", count: 1000),
  ])
  func refusesWhatIsNotJSON(text: String) {
    #expect(JSONValue(parsing: Array(text.utf8)) == nil)
  }

  /// As nats-server 2.9.10 answers before and after it has made the stream's store.
  @Test func knowsAStreamThatIsBeingMade() throws {
    func information(_ created: String) throws -> JSONValue {
      try #require(JSONValue(parsing: Array("{\"created\":\"\(created)\",\"state\":{}}".utf8)))
    }
    #expect(JetStreamAPI.isBeingMade(try information("0001-01-01T00:00:00Z")))
    #expect(!JetStreamAPI.isBeingMade(try information("2026-11-28T10:00:00.123456789Z")))
    #expect(!JetStreamAPI.isBeingMade(.object(["error": .object([:])])))
  }

  /// The sentence is for operators; only the code is compared.
  @Test(arguments: [(400, 10025, false), (503, 10008, true), (500, 10005, true), (503, nil, true)])
  func anErrorKeepsItsCode(status: Int, number: UInt64?, passes: Bool) throws {
    let field = number.map { ",\"err_code\":\($0)" } ?? ""
    let text = "{\"error\":{\"code\":\(status)\(field),\"description\":\"why\"}}"
    let reply = try JetStreamAPI.parse(BusMessage(subject: "s", bytes: Array(text.utf8)))
    let error = #expect(throws: BusError.self) { try JetStreamAPI.storedMessage(reply, "S") }
    #expect(error?.code == .jetStream(number ?? 0))
    #expect(error?.isTransient == passes)
    #expect("\(error!)" == "cannot read from S: JetStream says: why (\(number ?? 0))")
  }

  @Test("a stream that a server does not know yet may be read later") func notThereYet() throws {
    let text = #"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#
    let reply = try JetStreamAPI.parse(BusMessage(subject: "s", bytes: Array(text.utf8)))
    let error = #expect(throws: BusError.self) { try JetStreamAPI.storedMessage(reply, "S") }
    #expect(error == .notReady("there is no stream S", code: .streamNotFound))
  }

  @Test func quotesText() {
    #expect(JSONWriter.quoted("a\"b\\c\nd") == "\"a\\\"b\\\\c\\nd\"")
  }

  @Test func readsWhereADeliveryStood() {
    let old = DeliveryOrigin("$JS.ACK.KV_x.cons.1.17.3.1700000000000000000.9")
    #expect(old?.streamSequence == 17)
    #expect(old?.consumerSequence == 3)
    #expect(old?.deliveries == 1)
    let new = DeliveryOrigin("$JS.ACK._.hash.KV_x.cons.1.17.3.1700000000000000000.9.token")
    #expect(new == old)
    #expect(DeliveryOrigin("_INBOX.a.b") == nil)
    #expect(DeliveryOrigin("$JS.ACK.a.b.c.d.e.f.g") == nil)
  }

  @Test(arguments: [
    ("nats://127.0.0.1:4222", "127.0.0.1", "4222"), ("nats://a:1", "a", "1"),
    ("tls://u:p@a", "a", "4222"), ("tls://[::1]:7", "::1", "7"), ("nats://[::1]", "::1", "4222"),
    ("tls://user:p@ss@[::1]:4333", "::1", "4333"), ("nats://nowhere", "nowhere", "4222"),
    ("nats://u:p/q@127.0.0.1:9/", "127.0.0.1", "9"),
  ])
  func readsAServersAddress(text: String, host: String, port: String) throws {
    let parts = try #require(ServerGreeting.split(text))
    #expect(parts == (host, port))
  }

  @Test func readsAServersGreeting() {
    #expect(
      ServerGreeting.parse(Array("INFO {\"version\":\"2.9.10\",\"proto\":1} \r\n".utf8)) == "2.9.10"
    )
    #expect(ServerGreeting.parse(Array("HTTP/1.1 400".utf8)) == nil)
    #expect(ServerGreeting.split("nats://") == nil)
  }

  /// Only a queue is meant to refuse when it is full; that a disk is full is no other writer's doing.
  @Test func tellsARefusalFromAStoreThatFails() {
    func read(_ text: String, hasLimit: Bool = false) -> AppendResult {
      StreamAcknowledgement.result(Array(text.utf8).span, hasLimit: hasLimit)
    }
    func error(_ code: Int) -> String {
      "{\"error\":{\"code\":503,\"err_code\":\(code),\"description\":\"no room\"},\"stream\":\"S\",\"seq\":0}"
    }
    #expect(read("{\"stream\":\"S\", \"seq\": 12}") == .appended(sequence: 12))
    #expect(read("{\"stream\":\"S\",\"seq\":12,\"duplicate\":true}") == .appended(sequence: 12))
    for code in [10071, 10164] {
      #expect(read(error(code)) == .refused)
      #expect(read(error(code), hasLimit: true) == .refused)
    }
    #expect(read(error(10077), hasLimit: true) == .refused)
    #expect(read(error(10077)) == .unknown("JetStream says: no room (10077)"))
    #expect(read(error(10023), hasLimit: true) == .unknown("JetStream says: no room (10023)"))
    for text in ["", "{}", "{\"seq\":}", "{\"stream\":\"S\",\"seq\":0}", "+OK", "{\"error\":7}"] {
      #expect(read(text).doubt != nil, "\(text)")
    }
  }
}
