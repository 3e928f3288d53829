import CallTelemetry
import Testing

@Suite("versions of the store") struct StoreVersionTests {
  @Test(
    arguments: [
      ("2.9.10", true), ("2.10.29", true), ("2.11.11", true), ("2.11.12", false),
      ("2.11.13", false),
      ("2.12.0-RC.1", true), ("2.12.2", true), ("2.12.3", false), ("2.15.1", false),
      ("3.0.0", false),
    ])
  func whichMayEmptyStreams(text: String, may: Bool) throws {
    #expect(try #require(StoreVersion(text)).mayEmptyStreams == may)
  }

  @Test(arguments: [
    "", "2", "2.9", "2.9.x", "2.9.10.1", "latest", "2..1", "99999999999999999999.1.1",
  ])
  func whatIsNoVersionIsNone(text: String) { #expect(StoreVersion(text) == nil) }

  @Test(arguments: [
    ("2.9.10", true), ("2.11.15", true), ("2.11.16", false), ("2.12.0", true), ("2.12.6", true),
    ("2.12.7", false), ("2.15.1", false),
  ])
  func whichHaveKnownHoles(text: String, has: Bool) throws {
    #expect(try #require(StoreVersion(text)).hasKnownHoles == has)
    let advisory = StoreVersion.advisory([(text, "tls://nats-1:4222")])
    #expect((advisory != nil) == has)
    #expect(advisory?.contains(text) ?? true)
    // Nobody but this machine reaches those.
    for address in ["nats://127.0.0.1:4222", "tls://localhost:1", "nats://[::1]:4222"] {
      #expect(StoreVersion.advisory([(text, address)]) == nil)
    }
  }

  @Test func replicasOnAnOldServerAreWarnedOf() throws {
    let both = ["2.15.1", "2.9.10", "", "2.9.10"]
    #expect(StoreVersion.warning(both, replicas: 1) == nil)
    #expect(StoreVersion.warning(["2.15.1"], replicas: 3) == nil)
    let text = try #require(StoreVersion.warning(both, replicas: 3))
    #expect(text.contains("nats-server 2.9.10 with 3 replicas"))
    #expect(text.contains("2.11.12"))
  }
}
