import CallAuth
import CallClient
import CallCore
import CallWire
import Foundation
import Synchronization

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

  convenience init(
    _ cluster: TestCluster, user: String, _ name: String, edges: [String] = ["e1", "e2"],
    codec: DeviceCodec = .protobuf, wokenFor call: CallID? = nil, wantsHistory: Bool = false,
    deviceName: String? = nil
  ) async throws {
    try await self.init(
      keys: cluster.keys, edges: edges.map(cluster.url), user: user, name, codec: codec,
      wokenFor: call, wantsHistory: wantsHistory, deviceName: deviceName)
  }

  /// - Parameters:
  ///   - edges: their URLs, in the order in which they are tried.
  ///   - call: the call for which a push has woken the device.
  ///   - deviceName: as others are shown it; nil: from user and name.
  init(
    keys: AppKeys, edges: [String], user: String, _ name: String, codec: DeviceCodec = .protobuf,
    trust: EdgeTrust = .system, wokenFor call: CallID? = nil, wantsHistory: Bool = false,
    deviceName: String? = nil
  ) async throws {
    token = try await Self.token(keys, user: user, name)
    var configuration = ClientMachine.Configuration(
      edges: edges, token: token, device: name)
    configuration.deviceName = deviceName ?? "\(user)'s \(name)"
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

  func invites(_ call: CallID) -> Int {
    heard.count { if case .call(call, .invited) = $0 { true } else { false } }
  }

  func stops(_ call: CallID) -> [Stop] {
    heard.compactMap { if case .call(call, .stopped(let stop)) = $0 { stop } else { nil } }
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
