internal import Synchronization

/// The way in which an app's SDK reads a VoIP push.
public enum APNsPushReading: Sendable, Equatable {
  /// The SDK reports an incoming call under this id.
  case call(id: String)
  /// The SDK ends a call that was reported before. `kind` is the dialect's kind of such a push, since a registration
  /// takes some kinds and not others.
  case end(id: String, kind: String)
  /// The SDK cannot read it. No call is reported, and iOS ends the app.
  case unreadable
}

/// The devices behind a simulator, which judge the pushes that they get (R35). Each registration names how its SDK
/// reads a push, and the pushes that end a call it asked for.
public final class APNsDevices: Sendable {
  public struct Device: Sendable {
    /// The SDK's way of reading a payload.
    public var read: @Sendable (APNsPush) -> APNsPushReading
    /// The kinds of `APNsPushReading.end` that the registration asked for.
    public var takes: Set<String>
    public init(takes: Set<String> = [], read: @escaping @Sendable (APNsPush) -> APNsPushReading) {
      self.takes = takes
      self.read = read
    }
  }

  /// The calls that are remembered per device. Policy: the oldest are forgotten.
  public static let callsPerDeviceMax = 1000

  private struct State {
    var devices: [String: Device] = [:]
    var calls: [String: Calls] = [:]
  }
  private struct Calls {
    /// The `apns-id` that each call came with.
    var ids: [String: String] = [:]
    var order: [String] = []

    mutating func remember(_ call: String, _ id: String) {
      if order.count >= APNsDevices.callsPerDeviceMax { ids[order.removeFirst()] = nil }
      ids[call] = id
      order.append(call)
    }
  }

  private let state = Mutex(State())
  private let endsNeedCalls: Bool

  /// - Parameter endsNeedCalls: whether a push that ends a call is a violation if no push reported the call. A test
  ///   that drops pushes on purpose checks that itself.
  public init(endsNeedCalls: Bool = true) { self.endsNeedCalls = endsNeedCalls }

  /// A device registered this VoIP token. The registration counts, not the app that is installed later: register again
  /// when that one does.
  public func register(_ token: String, _ device: Device) {
    state.withLock { $0.devices[token.lowercased()] = device }
  }

  /// Returns the violations that a push shows. Ignores pushes to unregistered devices, and those that are not VoIP.
  public func check(_ push: APNsPush) -> [APNsViolation] {
    state.withLock { state in
      guard push.type == .voip, let device = state.devices[push.token] else { return [] }
      switch device.read(push) {
      case .unreadable: return [.unreadablePush]
      case .call(let id):
        // A sender without an answer repeats the push under the same id; a push with another id rings twice.
        if let first = state.calls[push.token]?.ids[id] {
          return first == push.id ? [] : [.doubledCall]
        }
        state.calls[push.token, default: Calls()].remember(id, push.id)
        return []
      case .end(let id, let kind):
        var violations: [APNsViolation] = []
        if !device.takes.contains(kind) { violations.append(.unwantedEndPush) }
        let isUnknown = state.calls[push.token]?.ids[id] == nil
        if endsNeedCalls, isUnknown { violations.append(.endWithoutCall) }
        return violations
      }
    }
  }
}
