import CallAuth
import CallBus
import CallCoordinator
import CallCore
import CallWire
import Synchronization
import Testing

/// An edge that says what it likes. All of its sessions have the number 8.
final class ForgingEdge: Sendable {
  static let secret = EdgeSecret(high: 6, low: 6)
  static let number = EdgeNumber.of(secret: 6, 6)

  let number: UInt64
  private let secret: EdgeSecret
  private let bench: WorkerBench
  private let heard = Mutex<[EdgeItem.Body]>([])
  private let lastRequest = Mutex<UInt64>(0)

  init(_ bench: WorkerBench, secret: EdgeSecret = ForgingEdge.secret) throws {
    self.bench = bench
    self.secret = secret
    number = EdgeNumber.of(secret: secret.high, secret.low)
    _ = try bench.bus.subscribe(bench.subjects.replies(to: number)) { [self] message in
      let items = (try? ClusterCodec.edgeBatch(message.bytes))?.items ?? []
      heard.withLock { $0 += items.map(\.body) }
    }
  }

  var closed: Int { heard.withLock { $0.count { if case .close = $0 { true } else { false } } } }
  var errors: [CallError.Code] {
    heard.withLock {
      $0.compactMap { if case .reply(_, .error(let error)) = $0 { error.code } else { nil } }
    }
  }

  @discardableResult
  func say(
    _ body: Command.Body, of user: UserKey, _ device: DeviceID, _ credential: Credential,
    to callee: UserKey? = nil, edge: UInt64? = nil
  ) -> UInt64 {
    let request = lastRequest.withLock { last in
      last += 1
      return last
    }
    var command = Command(
      session: SessionRef(edge: edge ?? number, number: 8), request: request, user: user,
      device: device, callee: callee ?? user, body: body)
    command.credential = credential
    bench.bus.publish(
      bench.subjects.commands(shard: 0),
      ClusterCodec.encode(
        CommandBatch(edge: edge ?? number, secret: secret, commands: [command])))
    return request
  }

  func ask(
    _ body: Command.Body, of user: UserKey, _ device: DeviceID, _ credential: Credential,
    to callee: UserKey? = nil
  ) async throws -> Reply {
    let request = say(body, of: user, device, credential, to: callee)
    func reply() -> Reply? {
      for case .reply(request, let reply) in heard.withLock({ $0 }) { return reply }
      return nil
    }
    try await eventually("a reply to \(body)") { reply() != nil }
    return try #require(reply())
  }
}

extension CoordinatorConfiguration {
  mutating func require(_ rig: CommandAuthenticatorTests.Rig) {
    sessionTickets = .required
    authority = rig.authority
  }
}

extension CommandAuthenticatorTests.Rig {
  func token(_ user: UserKey, at now: Timestamp) async throws -> String {
    try keys.mintToken(
      app: user.app, user: user.user, lifetimeSeconds: 600, now: now.microseconds / 1_000_000)
  }
}
