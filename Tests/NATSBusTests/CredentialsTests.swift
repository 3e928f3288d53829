import CallBus
import CallProcesses
import NATSBus
import Testing

/// Servers that want a password. No error or event shows it, and its end is the bus's.
@Suite(.timeLimit(.minutes(2)))
struct CredentialsTests {
  private static let password = "s3cr3t"

  private static let arguments = ["--user", "ann", "--pass", password]

  private func connect(
    _ server: NATSServerProcess, _ events: Inbox<NATSEvent>
  ) async throws -> NATSBus {
    try await NATSBus.test("nats://ann:\(Self.password)@127.0.0.1:\(server.port)", events)
  }

  @Test func thePasswordIsNotShown() async throws {
    let server = try await NATSServerProcess.start(arguments: Self.arguments)
    defer { server.stop() }
    let events = Inbox<NATSEvent>(capacity: 1000)
    let bus = try await connect(server, events)
    #expect(bus.statistics.server == server.url)
    try await server.restart()
    let seen = try await events.until { if case .reconnected = $0 { true } else { false } }
    #expect(seen.contains(.connected(server: server.url)))
    #expect(seen.contains(.reconnected(server: server.url)))
    await bus.close()
    let rest = await events.next(until: .now)
    #expect(!"\(seen + rest)".contains(Self.password))
  }

  @Test func noErrorHoldsThePassword() async throws {
    let server = try await NATSServerProcess.start(arguments: Self.arguments)
    defer { server.stop() }
    for url in [
      server.url, "nats://ann:wr0ng@127.0.0.1:\(server.port)", "nats://ann:wr0ng@127.0.0.1:1",
      "nats://ann:wr0ng@127.0.0.1:1,nats://bob:wr0ng@[::1]:1", "gopher://ann:wr0ng@127.0.0.1",
      "nats://ann:wr0ng@127.0.0.1:many", "nats://ann:wr0ng@no such host:1",
      "nats://ann:wr0ng,wr0ng@127.0.0.1:1",
    ] {
      let error = await #expect(throws: BusError.self) { _ = try await NATSBus.test(url) }
      let text = "\(String(describing: error))"
      #expect(!text.contains("wr0ng"), "\(text)")
      if url.hasSuffix("@127.0.0.1:1"), !url.contains(",") {
        guard case .notReady(let text, _) = error else {
          Issue.record("another error: \(text)")
          continue
        }
        #expect(text.hasPrefix("no nats-server can be reached: "))
      }
      // To wait for a server that refuses does not help, so its error differs from that of one that is not there.
      if url.hasSuffix(":\(server.port)") {
        guard case .failed(let text, let code?) = error else {
          Issue.record("another error: \(text)")
          continue
        }
        #expect(BusError.Code.refusals.contains(code))
        #expect(text.hasPrefix("nats-server refuses the credentials: "))
      }
    }
  }

  /// The library gives a connection up for good when it is refused twice. Only this event lets the program know.
  @Test func aServerThatRefusesUsFromNowOnEndsTheBus() async throws {
    let server = try await NATSServerProcess.start(arguments: Self.arguments)
    defer { server.stop() }
    let events = Inbox<NATSEvent>(capacity: 1000)
    let bus = try await connect(server, events)
    try await server.restart(adding: ["--pass", "another"])
    let seen = try await events.until { $0 == .closed }
    let refusals = seen.filter {
      if case .failure(let text) = $0 { text.contains("refuses the credentials") } else { false }
    }
    #expect(refusals.count == 1, "\(seen)")
    #expect(!bus.publish("x", [1]))
    #expect(!bus.statistics.connected)
    await bus.close()
  }
}

@Suite struct PermissionTests {
  /// A process with all roles, whose inbox is its own, may do what each of them may, and no more.
  @Test func allIsTheSumOfTheRoles() {
    let subjects = Subjects(cluster: "test", shardCount: 4)
    func permissions(_ role: NATSRole) -> NATSPermissions {
      NATSPermissions(role, subjects, lanes: ["fcm", "web"])
    }
    func inbox(_ role: NATSRole) -> String { subjects.inbox(of: role.rawValue) + ".>" }
    let all = permissions(.all)
    let roles: [NATSRole] = [.edge, .coordinator, .push]
    #expect(Set(all.publish) == Set(roles.flatMap { permissions($0).publish }))
    let subscribed = roles.flatMap { role in
      permissions(role).subscribe.filter { $0 != inbox(role) }
    }
    #expect(Set(all.subscribe) == Set(subscribed + [inbox(.all)]))
    #expect(Set(all.publish).count == all.publish.count)
    #expect(Set(all.subscribe).count == all.subscribe.count)
  }
}
