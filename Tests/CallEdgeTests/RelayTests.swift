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
    machine.say(1, .attach(AttachRequest(device: "phone", wantsRelays: wants)))
    machine.reply(1, .attach(Attach()), .attached(forCall: nil))
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
    #expect(attached(wants: false, has: true).1 == nil)
    #expect(attached(wants: true, has: false).1 == nil)
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

  @Test("a device that did not ask is told nothing")
  func untold() {
    var (machine, _) = attached(wants: false, has: true)
    machine.pass(.seconds(2700))
    #expect(relays(machine.take()).isEmpty)
  }

  @Test(arguments: [
    "turn:turn.example", "turns:turn.example:5349?transport=tcp", "turn:[::1]:3478?transport=udp",
  ])
  func urls(text: String) { #expect(RelayServers.isAcceptable(text)) }

  @Test(arguments: [
    "", "turn:", "stun:turn.example", "turn:a b", "turn:a?transport=quic", "https://turn.example",
  ])
  func noURLs(text: String) { #expect(!RelayServers.isAcceptable(text)) }
}
