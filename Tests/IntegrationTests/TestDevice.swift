import CallAuth
import CallClient
import CallCore
import CallWire
import Foundation
import Synchronization
import Testing

/// A device that remembers all its events, so that a test can wait for a fact.
final class TestDevice: Sendable {
  let device: CallDevice
  let name: String
  /// With which it logs in.
  let token: String
  private struct State {
    var heard: [ClientEvent] = []
    var waiters: [Waiter] = []
  }
  private struct Waiter: Sendable {
    var token: Int
    var matches: @Sendable ([ClientEvent]) -> Bool
    var continuation: CheckedContinuation<Bool, Never>
  }
  private let state = Mutex(State())
  private let lastToken = Atomic(0)
  private let reader = Mutex<Task<Void, Never>?>(nil)

  /// - Parameters:
  ///   - edges: their URLs, in the order in which they are tried.
  ///   - call: the call for which a push has woken the device.
  init(
    keys: AppKeys, edges: [String], user: String, _ name: String, codec: DeviceCodec = .protobuf,
    trust: EdgeTrust = .system, wokenFor call: CallID? = nil, wantsHistory: Bool = false
  ) async throws {
    token = try await Self.token(keys, user: user, name)
    var configuration = ClientMachine.Configuration(edges: edges, token: token, device: name)
    configuration.deviceName = "\(user)'s \(name)"
    configuration.wantsHistory = wantsHistory
    configuration.backoffMinimum = .milliseconds(50)
    configuration.backoffMaximum = .milliseconds(500)
    device = CallDevice(configuration, codec: codec, trust: trust)
    self.name = name
    if let call { device.woken(for: call) } else { device.start() }
    // Owned by this device; ends with its events.
    reader.withLock { $0 = Task { await self.read() } }
    try await wait("attached") { if case .attached = $0 { true } else { false } }
  }

  static func token(_ keys: AppKeys, user: String, _ device: String) async throws -> String {
    try keys.mintToken(
      app: "demo", user: user, device: device, lifetimeSeconds: 3600, now: nowSeconds)
  }

  private static var nowSeconds: Int64 { Int64(Date().timeIntervalSince1970) }

  func stop() { device.stop() }

  private func read() async {
    for await event in device.events {
      let ready = state.withLock { state in
        state.heard.append(event)
        let heard = state.heard
        let ready = state.waiters.filter { $0.matches(heard) }
        state.waiters.removeAll { waiter in ready.contains { $0.token == waiter.token } }
        return ready
      }
      for waiter in ready { waiter.continuation.resume(returning: true) }
    }
  }

  var heard: [ClientEvent] { state.withLock { $0.heard } }

  /// Waits until an event has come, or came already. Hangs no test: it fails after a minute.
  func wait(
    _ what: String, count: Int = 1, _ matches: @escaping @Sendable (ClientEvent) -> Bool
  ) async throws {
    let token = lastToken.add(1, ordering: .relaxed).newValue
    let enough: @Sendable ([ClientEvent]) -> Bool = { $0.count(where: matches) >= count }
    let deadline = Task {
      try await Task.sleep(for: .seconds(60))
      let late = state.withLock { state in
        let late = state.waiters.filter { $0.token == token }
        state.waiters.removeAll { $0.token == token }
        return late
      }
      for waiter in late { waiter.continuation.resume(returning: false) }
    }
    defer { deadline.cancel() }
    let came = await withCheckedContinuation { continuation in
      let now = state.withLock { state in
        if enough(state.heard) { return true }
        state.waiters.append(Waiter(token: token, matches: enough, continuation: continuation))
        return false
      }
      if now { continuation.resume(returning: true) }
    }
    guard came else {
      throw TestCluster.Failure(
        description: "\(name) did not hear: \(what); it heard \(heard.suffix(6))")
    }
  }

  func waitForInvite(_ call: CallID) async throws {
    try await wait("the invite") { if case .call(call, .invited) = $0 { true } else { false } }
  }

  func waitForStop(_ call: CallID, _ reason: EndReason) async throws {
    try await wait("\(reason)") {
      if case .call(call, .stopped(let stop)) = $0 { stop.reason == reason } else { false }
    }
  }

  func waitForAnswer(_ call: CallID) async throws {
    try await wait("the answer") { if case .call(call, .answered) = $0 { true } else { false } }
  }

  func waitForDescription(_ call: CallID, _ body: String) async throws {
    try await wait("a description") {
      guard case .call(call, .signal(let signal)) = $0 else { return false }
      return signal.kind == .description && signal.body == body
    }
  }

  /// Waits until the other side of a call is another device.
  func waitForMove(_ call: CallID, to user: String, _ device: DeviceID, _ description: String)
    async throws
  {
    try await wait("a move to \(device) of \(user)") {
      guard case .call(call, .moved(let moved)) = $0 else { return false }
      return moved.to.user == user && moved.to.device == device && moved.description == description
    }
  }

  func waitForNotice(_ kind: Notice.Kind) async throws {
    try await wait("\(kind)") {
      if case .notice(let notice) = $0 { notice.kind == kind } else { false }
    }
  }

  func invites(_ call: CallID) -> [Invite] {
    heard.compactMap { if case .call(call, .invited(let invite)) = $0 { invite } else { nil } }
  }

  func stops(_ call: CallID) -> [Stop] {
    heard.compactMap { if case .call(call, .stopped(let stop)) = $0 { stop } else { nil } }
  }

  var wasDetached: Bool {
    heard.contains { if case .detached = $0 { true } else { false } }
  }
}

/// The steps that tests take with calls.
extension TestDevice {
  /// Places a call that rings for two minutes.
  func place(_ call: CallID = .random(), to user: String, description: String = "") async throws
    -> CallID
  {
    try await device.place(
      PlaceRequest(call: call, ringTimeoutSeconds: 120, description: description), to: user)
    return call
  }

  /// Answers a call of the other device as soon as it rings.
  func answer(_ call: CallID, of caller: TestDevice, description: String = "") async throws {
    try await waitForInvite(call)
    #expect(try await device.answer(call, description: description))
    try await caller.waitForAnswer(call)
  }

  func hangUp(_ call: CallID, with other: TestDevice) async throws {
    try await device.hangUp(call)
    try await other.waitForStop(call, .hungUp)
  }

  func cancel(_ call: CallID, with other: TestDevice) async throws {
    try await device.cancel(call)
    try await other.waitForStop(call, .cancelled)
  }
}

extension CallID {
  static func random() -> CallID {
    CallID(high: .random(in: 0 ... .max), low: .random(in: 0 ... .max))
  }
}

/// Asks again for a minute: a command may fail while a node that was killed is missed.
@discardableResult
func retrying<Value>(_ body: () async throws -> Value) async throws -> Value {
  let deadline = ContinuousClock.now + .seconds(60)
  while true {
    do {
      return try await body()
    } catch {
      if ContinuousClock.now > deadline { throw error }
    }
  }
}

/// Waits for a fact about other processes, of which nothing tells. Hangs no test: it fails after a minute.
/// - Parameters:
///   - seconds: more than a minute only where something has a longer deadline of its own.
///   - found: what there was in its place.
func eventually(
  _ what: String, seconds: Int = 60, found: () -> String = { "" }, _ holds: () async throws -> Bool
) async throws {
  let deadline = ContinuousClock.now + .seconds(seconds)
  while ContinuousClock.now < deadline {
    if try await holds() { return }
    try await Task.sleep(for: .milliseconds(20))
  }
  throw TestCluster.Failure(description: "waited \(seconds) s in vain until \(what) \(found())")
}
