internal import Synchronization

/// How an app's SDK reads a VoIP push: what the readers of each dialect say of one.
public enum APNsPushReading: Sendable, Equatable {
  /// It reports an incoming call under this id, whatever its dialect calls that.
  case call(id: String)
  /// It ends or clears a call that was reported before. `kind` names which of the dialect's ways that
  /// is: registrations take some and not others.
  case end(id: String, kind: String)
  /// It can make nothing of it: no call is reported, and iOS ends the app.
  case unreadable
}

/// The devices behind a simulator, as judges of what they get (R35): each registration says how its
/// SDK reads a push and which pushes that end a call it asked for. Pure; `APNsDevices` is what a
/// simulator takes.
public struct APNsPushChecker: Sendable {
  public struct Device: Sendable {
    /// The SDK's way of reading a payload.
    public var read: @Sendable (APNsPush) -> APNsPushReading
    /// The kinds of `APNsPushReading.end` that the registration asked for.
    public var takes: Set<String>
    public init(
      takes: Set<String> = [], read: @escaping @Sendable (APNsPush) -> APNsPushReading
    ) {
      self.takes = takes
      self.read = read
    }
  }

  /// How many calls are remembered for a device: the oldest are forgotten.
  public static let callsPerDeviceMax = 1000

  private var devices: [String: Device] = [:]
  private var calls: [String: Calls] = [:]

  private struct Calls {
    /// The `apns-id` that each call came with.
    var ids: [String: String] = [:]
    var order: [String] = []
  }

  private let endsNeedCalls: Bool

  /// - Parameter endsNeedCalls: whether a push that ends a call is wrong where none reported it. Who
  ///   knows which pushes were lost on purpose judges that better by itself.
  public init(endsNeedCalls: Bool = true) { self.endsNeedCalls = endsNeedCalls }

  /// A device registered this VoIP token. What counts is the registration, not the app that is
  /// installed meanwhile: register again when it does.
  public mutating func register(_ token: String, _ device: Device) {
    devices[token.lowercased()] = device
  }

  /// What is wrong with a push; empty if nothing is. Pushes to devices that nobody registered, and
  /// those that are not VoIP, are none of its business.
  public mutating func check(_ push: APNsPush) -> [APNsViolation] {
    guard push.type == .voip, let device = devices[push.token] else { return [] }
    switch device.read(push) {
    case .unreadable: return [.unreadablePush]
    case .call(let id):
      // The same push again is what a sender does that had no answer; another one rings twice.
      if let first = calls[push.token]?.ids[id] {
        return first == push.id ? [] : [.doubledCall]
      }
      remember(id, push)
      return []
    case .end(let id, let kind):
      var violations: [APNsViolation] = []
      if !device.takes.contains(kind) { violations.append(.unwantedEndPush) }
      if endsNeedCalls, calls[push.token]?.ids[id] == nil { violations.append(.endWithoutCall) }
      return violations
    }
  }

  private mutating func remember(_ id: String, _ push: APNsPush) {
    var known = calls.removeValue(forKey: push.token) ?? Calls()
    if known.order.count >= Self.callsPerDeviceMax {
      known.ids[known.order.removeFirst()] = nil
    }
    known.ids[id] = push.id
    known.order.append(id)
    calls[push.token] = known
  }
}

/// The devices behind a simulator: a checker that many connections may ask at once.
public final class APNsDevices: Sendable {
  private let checker: Mutex<APNsPushChecker>

  public init(_ checker: APNsPushChecker = APNsPushChecker()) { self.checker = Mutex(checker) }

  /// A device registered this VoIP token.
  public func register(_ token: String, _ device: APNsPushChecker.Device) {
    checker.withLock { $0.register(token, device) }
  }

  /// What is wrong with a push; empty if nothing is.
  public func check(_ push: APNsPush) -> [APNsViolation] { checker.withLock { $0.check(push) } }
}
