import CallAuth
import CallCore
import CallWire
import Synchronization
import Testing

private let id = "11111111-2222-3333-4444-555555555555"

/// The reason why a token was refused: the device does not learn it, the log and a metric tell it.
@Suite(.timeLimit(.minutes(2))) struct RefusedTokenTests {
  private static func token(_ payload: String) -> String {
    [#"{"alg":"HS256","kid":"k1"}"#, payload, "no signature"]
      .map { Base64URL.text(Array($0.utf8)) }.joined(separator: ".")
  }

  /// A user id that is a number, as an app's server may write it.
  private static let numeric = token(#"{"app":"demo","sub":424242,"exp":1800000600}"#)

  private func run(
    _ body: (EdgeFixture, StillTime, _ lines: () -> [String]) async throws -> Void
  ) async throws {
    let (said, time) = (Lines(), StillTime())
    let keep: @Sendable (String) -> Void = { said.add($0) }
    try await EdgeFixture.run(at: time, log: keep) { edge in
      try await body(edge, time) {
        said.all.filter { $0.contains("A token was refused.") }
      }
    }
  }

  private final class Lines: Sendable {
    private let lines = Mutex<[String]>([])
    func add(_ line: String) { lines.withLock { $0.append(line) } }
    var all: [String] { lines.withLock { $0 } }
  }

  @Test func theLogSaysWhichClaimIsWrong() async throws {
    try await run { edge, _, lines in
      let client = try await edge.client()
      let path = "/v1/calls/bob/\(id)"
      let answer = try await client.request("GET", path, token: Self.numeric)
      #expect(answer.status == 401 && answer.errorCode == 200)
      #expect(!answer.text.contains("sub"), "whoever tries tokens is helped by no detail")
      #expect(lines().count == 1)
      let line = try #require(lines().first)
      #expect(line.contains("sub has another type: it is text"))
      #expect(!line.contains("424242") && !line.contains(Self.numeric))
      #expect(edge.metric(#"callmesh_edge_tokens_refused_total{part="sub"}"#) == 1)
      // Another fault is another part; a good token is none.
      let late = try edge.keys.mintToken(
        app: "demo", user: "ann", lifetimeSeconds: 60, now: wallSeconds - 61)
      #expect(try await client.request("GET", path, token: late).status == 401)
      let good = try await edge.token("ann", device: "phone")
      #expect(try await client.request("GET", path, token: good).status == 200)
      #expect(edge.metric(#"callmesh_edge_tokens_refused_total{part="exp"}"#) == 1)
      #expect(edge.metric(#"callmesh_edge_tokens_refused_total{part="sub"}"#) == 1)
      #expect(lines().count == 2)
    }
  }

  /// So does that of an attach.
  @Test func itIsToldOfAnAttachToo() async throws {
    try await run { edge, _, lines in
      let client = try await edge.client()
      try await client.upgrade()
      client.say(1, .attach(AttachRequest(token: Self.numeric, device: "phone")))
      #expect(try await client.errorReply().code == .notAccepted)
      #expect(lines().map { $0.contains("sub has another type") } == [true])
    }
  }

  /// A flood of bad tokens fills no log.
  @Test func itsRateIsLimited() async throws {
    try await run { edge, time, lines in
      let client = try await edge.client()
      func fail() async throws {
        let answer = try await client.request("GET", "/v1/calls/bob/\(id)", token: Self.numeric)
        #expect(answer.status == 401)
      }
      for _ in 0..<30 { try await fail() }
      #expect(lines().count == 20)
      #expect(edge.metric(#"callmesh_edge_tokens_refused_total{part="sub"}"#) == 20)
      time.pass(.milliseconds(100))
      for _ in 0..<3 { try await fail() }
      #expect(lines().count == 22, "20 a second")
    }
  }
}
