import CallAuth
import CallCore
import CallEdge
import CallWire
import FoundationEssentials
import Testing

/// Credentials for TURN servers: who gets them, and when new ones.
@Suite final class RelayTests {
  private let servers: RelayServers
  private let file: String

  init() throws {
    let folder = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"
    file = folder + "/turn-\(UInt64.random(in: 0 ... .max)).secret"
    let text = Data("north-of-the-wall-17".utf8)
    #expect(FileManager.default.createFile(atPath: file, contents: text))
    servers = RelayServers(
      urls: ["turn:turn.example"], secret: try RelaySecret(file: file), lifetime: .seconds(3600))
  }

  deinit { try? FileManager.default.removeItem(atPath: file) }

  /// A session that attaches, and the credentials in the reply.
  private func attached(wants: Bool, has: Bool) -> (SessionMachine, RelayCredentials?) {
    let servers = has ? servers : nil
    var machine = SessionMachine(claims: .of()) {
      $0.relays = servers
      // Nothing answers pings here.
      $0.pingInterval = .seconds(1_000_000)
    }
    machine.attach(AttachRequest(device: "phone", wantsRelays: wants))
    for case .reply(1, .attached(let info)) in machine.take() { return (machine, info.relays) }
    return (machine, nil)
  }

  private func relays(_ actions: [DeviceSession.Action]) -> [RelayCredentials] {
    actions.compactMap { if case .relays(let relays) = $0 { relays } else { nil } }
  }

  @Test("a device that asks gets credentials with the reply to its attach")
  func withTheAttach() throws {
    let relays = try #require(attached(wants: true, has: true).1)
    let expires = SessionMachine.start + .seconds(3600)
    #expect(relays.urls == ["turn:turn.example"])
    #expect(relays.username == "\(expires.microseconds / 1_000_000):ann")
    #expect(relays.expiresAt == expires)
    #expect(attached(wants: true, has: false).1 == nil)
    // A device that did not ask is told nothing, also later.
    var (machine, none) = attached(wants: false, has: true)
    machine.pass(.seconds(2700))
    #expect(none == nil && self.relays(machine.take()).isEmpty)
  }

  @Test("new credentials come in the third quarter of the former ones' life, again and again")
  func renewed() throws {
    var (machine, former) = attached(wants: true, has: true)
    for _ in 0..<3 {
      machine.pass(.seconds(1799))
      #expect(relays(machine.take()).isEmpty)
      machine.pass(.seconds(901))
      let new = relays(machine.take())
      #expect(new.count == 1)
      #expect(try #require(new.first).expiresAt > #require(former).expiresAt)
      former = new.first
    }
  }

  @Test(arguments: [
    ("turn:turn.example", true), ("turns:turn.example:5349?transport=tcp", true),
    ("turn:[::1]:3478?transport=udp", true), ("", false), ("turn:", false),
    ("stun:turn.example", false), ("turn:a b", false), ("turn:a?transport=quic", false),
    ("https://turn.example", false),
  ])
  func urls(text: String, isAcceptable: Bool) {
    #expect(RelayServers.isAcceptable(text) == isAcceptable)
  }
}
