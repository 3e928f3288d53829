/// The rules that a user, or the app's server, has set in advance for calls to the user. The user's shard keeps them in
/// the store. A value without any rule is as good as none.
public struct UserRules: Sendable, Equatable {
  /// To whom calls go; at most 10 users of the same app, who ring together.
  public struct Forward: Sendable, Equatable {
    public var users: [String]
    public init(users: [String]) { self.users = users }
  }

  /// Calls do not ring the user's devices.
  public struct DoNotDisturb: Sendable, Equatable {
    /// nil: until the rules are changed.
    public var until: Timestamp?
    /// Users of the same app who ring all the same; at most 50.
    public var except: [String]
    public init(until: Timestamp? = nil, except: [String] = []) {
      self.until = until
      self.except = except
    }
  }

  /// The user is no person but a group, as the app's server alone decides. The rules besides do not hold then.
  public var group: CallGroup?
  /// The user's display name, as the app's server alone sets it; empty: none. It decides nothing about calls to the
  /// user, and stands here since both are stored together.
  public var name = ""
  public var always: Forward?
  public var onBusy: Forward?
  public var onNoAnswer: Forward?
  /// After how many seconds of ringing `onNoAnswer` holds.
  public var noAnswerSeconds: UInt32
  public var onUnreachable: Forward?
  public var doNotDisturb: DoNotDisturb?
  /// Ring in stages: these devices first, all after `firstSeconds`. At most 10; empty: all at once.
  public var firstDevices: [DeviceID]
  public var firstSeconds: UInt32
  /// When the shard took them, in whole milliseconds; what a client says here is not read.
  public var changedAt: Timestamp

  public static let usersMax = 10
  public static let exceptionsMax = 50
  public static let devicesMax = 10
  public static let noAnswerRange: ClosedRange<UInt32> = 5...120
  public static let noAnswerStandard: UInt32 = 20
  public static let firstRange: ClosedRange<UInt32> = 3...60
  public static let firstStandard: UInt32 = 10

  public init(
    always: Forward? = nil, onBusy: Forward? = nil, onNoAnswer: Forward? = nil,
    noAnswerSeconds: UInt32 = UserRules.noAnswerStandard, onUnreachable: Forward? = nil,
    doNotDisturb: DoNotDisturb? = nil, firstDevices: [DeviceID] = [],
    firstSeconds: UInt32 = UserRules.firstStandard,
    changedAt: Timestamp = Timestamp(microseconds: 0)
  ) {
    self.always = always
    self.onBusy = onBusy
    self.onNoAnswer = onNoAnswer
    self.noAnswerSeconds = noAnswerSeconds
    self.onUnreachable = onUnreachable
    self.doNotDisturb = doNotDisturb
    self.firstDevices = firstDevices
    self.firstSeconds = firstSeconds
    self.changedAt = changedAt
  }

  /// Whether there is nothing to keep: the two times alone decide nothing.
  public var isEmpty: Bool {
    name.isEmpty && group == nil && always == nil && onBusy == nil && onNoAnswer == nil
      && onUnreachable == nil
      && doNotDisturb == nil && firstDevices.isEmpty
  }
}

extension UserRules {
  /// Checks sizes and names.
  /// - Parameter user: whose rules they are; nil: it is not known here, and is checked elsewhere.
  /// - Throws: `invalidRules`, with what is wrong.
  public func check(of user: String? = nil) throws(CallError) {
    try Self.check(always, "always", of: user)
    try Self.check(onBusy, "onBusy", of: user)
    try Self.check(onNoAnswer, "onNoAnswer", of: user)
    try Self.check(onUnreachable, "onUnreachable", of: user)
    try Self.check(noAnswerSeconds, Self.noAnswerRange, "noAnswerSeconds")
    try Self.check(firstSeconds, Self.firstRange, "firstSeconds")
    if let doNotDisturb {
      try Self.check(
        doNotDisturb.except, 0...Self.exceptionsMax, "doNotDisturb.except", IdentifierRules.isUser)
    }
    try Self.check(
      firstDevices.map(\.text), 0...Self.devicesMax, "firstDevices", IdentifierRules.isDevice)
  }

  /// How far an end of `doNotDisturb` may be in the past: clocks differ, and a command may be repeated.
  static let pastTolerated = Span.seconds(60)

  /// - Throws: `invalidRules` if they would never hold: of an end in seconds, as a rule.
  func checkTimes(now: Timestamp) throws(CallError) {
    guard let until = doNotDisturb?.until, until + Self.pastTolerated < now else { return }
    throw CallError(
      .invalidRules,
      "doNotDisturb.untilMs is in the past: give the time in milliseconds since 1970.")
  }

  /// The rules that hold for a user who is called as a member of a group: no call of the group is forwarded.
  var ofMember: UserRules {
    var rules = self
    (rules.always, rules.onBusy, rules.onNoAnswer, rules.onUnreachable) = (nil, nil, nil, nil)
    return rules
  }

  private static func check(
    _ forward: Forward?, _ name: String, of user: String?
  ) throws(CallError) {
    guard let forward else { return }
    try check(forward.users, 1...usersMax, "\(name).users", IdentifierRules.isUser)
    if let user, forward.users.contains(where: { $0.hasBytes(of: user) }) {
      throw CallError(.invalidRules, "\(name): calls cannot be forwarded to the user itself.")
    }
  }

  static func check(
    _ names: [String], _ range: ClosedRange<Int>, _ name: String, _ isValid: (String) -> Bool
  ) throws(CallError) {
    guard range.contains(names.count) else {
      let (least, most) = (range.lowerBound, range.upperBound)
      throw CallError(.invalidRules, "\(name) has \(least) to \(most) entries.")
    }
    guard names.allSatisfy(isValid) else {
      throw CallError(.invalidRules, "\(name) has an entry that is no such id.")
    }
    guard Set(names.map { Array($0.utf8) }).count == names.count else {
      throw CallError(.invalidRules, "\(name) has an entry twice.")
    }
  }

  static func check(
    _ seconds: UInt32, _ range: ClosedRange<UInt32>, _ name: String
  ) throws(CallError) {
    guard range.contains(seconds) else {
      throw CallError(
        .invalidRules, "\(name) is \(range.lowerBound) to \(range.upperBound), or not given.")
    }
  }
}

/// A request about a user's rules. The last one who writes wins.
public enum RulesRequest: Sendable, Equatable {
  case read
  /// Replaces all of them. An empty one removes them.
  case write(UserRules)
}
