/// The reason why a call went on to other users. Raw values are the journal's.
public enum DivertReason: UInt8, Sendable, CaseIterable {
  /// The user has all calls forwarded.
  case always = 1
  /// The user is in a call, or all of the user's devices are.
  case busy = 2
  /// The user did not answer in the time that the user's rules give.
  case noAnswer = 3
  /// No device of the user could be reached.
  case unreachable = 4
  /// The user wants no calls at present.
  case doNotDisturb = 5
  /// The app's hook decided so.
  case hook = 6
  /// The user declined. The call rings on for others, or goes on to the next member of a group.
  case declined = 7
  /// The user is a group.
  case group = 8
  /// A member of a group did not answer in its ring slot, or cannot be reached.
  case ringSlotOver = 9
  /// A device that has an answered call hands it over.
  case transferred = 10

  public var name: String { self == .ringSlotOver ? "turn" : "\(self)" }

  /// Whether a call that goes on for this reason goes on to a group's next member.
  var leadsToNextMember: Bool { self == .ringSlotOver || self == .declined }
}

/// A call leaves a user, whose devices stop ringing, and as a rule goes on to others.
public struct DivertedFacts: Sendable, Equatable {
  /// The user that it leaves: the callee, or a user to whom it was diverted before.
  public var from: String
  /// The users of the same app to whom it goes on. They ring together.
  public var to: [String]
  public var reason: DivertReason
  /// The device that declined.
  public var by: Party?
  public var at: Timestamp
  /// Until when it rings now.
  public var deadline: Timestamp
  /// The members of a group who ring one after the other, in their order, beginning with the one in `to`. Empty: all
  /// ring together.
  public var queue: [String] = []
  /// How long each member of `queue` rings.
  public var ringSlot: Span = .seconds(0)
  /// For a transfer: the only device that is to ring; nil: all do.
  public var device: DeviceID?
  /// For a transfer: the call in which that device was consulted before.
  public var consulted: ConsultedCall?
  /// For a transfer: the device's number for the command, by which a new owner recognises its repetition.
  public var request: UInt64 = 0
  public init(
    from: String, to: [String], reason: DivertReason, by: Party? = nil, at: Timestamp,
    deadline: Timestamp
  ) {
    self.by = by
    self.from = from
    self.to = to
    self.reason = reason
    self.at = at
    self.deadline = deadline
  }
}

extension [DivertedFacts] {
  /// The diversion by which the call came to a user; nil: it did not, or was placed to the user.
  private func way(to user: String) -> DivertedFacts? {
    first { $0.to.contains { $0.hasBytes(of: user) } }
  }

  /// The diversion that gave a user a ring slot as a member of a group; nil: all members ring together, or the user
  /// rings for another reason.
  func queue(of user: String) -> DivertedFacts? {
    guard let way = way(to: user) else { return nil }
    guard way.queue.isEmpty else { return way }
    guard way.reason.leadsToNextMember else { return nil }
    return first { $0.queue.contains { $0.hasBytes(of: user) } }
  }

  /// The user from whom the call came to a user; empty: there is none. For a member of a group it is the group.
  func sender(to user: String) -> String { (queue(of: user) ?? way(to: user))?.from ?? "" }
}

extension [DivertedFacts] {
  /// The users to whom the call went on, each once. Members of a group are left out: its callers need not know them.
  var targets: [String] {
    var users: [String] = []
    for user in lazy.filter({ $0.reason != .group && !$0.reason.leadsToNextMember }).flatMap(\.to)
    where !users.contains(where: { $0.hasBytes(of: user) }) {
      users.append(user)
    }
    return users
  }
}

extension DivertedFacts {
  /// The stop for the devices that rang until then.
  public var stop: Stop {
    switch reason {
    case .declined: Stop(reason: .declined, by: by)
    // The call was not meant to ring there, or another member may still answer.
    case .always, .hook, .group, .ringSlotOver, .transferred: Stop(reason: .unanswered)
    case .busy, .noAnswer, .unreachable, .doNotDisturb: Stop(reason: .unanswered, missed: true)
    }
  }
}

/// The users to whom a call goes on, in their order.
public struct DivertTargets: Sendable, Equatable {
  public var users: [String]
  /// How long each user rings before the next one does; nil: all ring together.
  public var ringSlot: Span?
  public init(_ users: [String], ringSlot: Span? = nil) {
    self.users = users
    self.ringSlot = ringSlot
  }
}

/// The users to whom a call goes on if a user does not answer it, by that user's rules. An empty list: to none.
struct Forwarding: Sendable, Equatable {
  var onBusy: [String] = []
  var onUnreachable: [String] = []
  var onNoAnswer: [String] = []
  /// How long it rings before `onNoAnswer` holds.
  var noAnswerAfter: Span = .seconds(20)
  /// The devices that ring alone first, for `firstFor`; empty: all ring at once.
  var firstDevices: [DeviceID] = []
  var firstFor: Span = .seconds(10)

  /// How long the first devices ring alone. The others have their share of the ringing.
  /// - Parameters:
  ///   - ring: how long the call rings at the user, unless the user's rules end that earlier.
  ///   - isFixed: the whole time is fixed: `ring` includes the time of users to whom the call goes on.
  func firstFor(ofRing ring: Span, isFixed: Bool) -> Span {
    let ring = onNoAnswer.isEmpty ? ring : noAnswerFor(ofRing: ring, isFixed: isFixed)
    return min(firstFor, ring.withoutLastShare)
  }

  /// How long the call rings at the user before `onNoAnswer` holds. If the whole time is fixed, the users to whom the
  /// call goes on have their share of it.
  func noAnswerFor(ofRing ring: Span, isFixed: Bool) -> Span {
    min(noAnswerAfter, isFixed ? ring.withoutLastShare : ring)
  }
}

extension Span {
  /// Longer than a person needs to reach a phone that begins to ring.
  private static let lastShare = Span.seconds(10)

  /// The ringing without the share of the devices that ring last: 10 s, or half of it if that is less.
  var withoutLastShare: Span {
    Span(microseconds: microseconds - min(Self.lastShare.microseconds, microseconds / 2))
  }
}

/// A user to whom a call was diverted. The call's shard has the call, and the user's shard knows the user's devices.
/// The call asks for them periodically while they ring, so the user's shard keeps no durable state about it, and the
/// next question restores the state after either shard has moved.
struct Guest: Sendable {
  let user: String
  /// The devices in the last answer of the user's shard.
  var devices: [User.Device] = []
  /// The user's shard has given this owner of the call a complete answer. Until then the call waits for it.
  var isKnown = false
  /// When the user's shard answered last.
  var answeredAt = Timestamp(microseconds: 0)
  /// Pushes to devices of the user wait for the next answer.
  var owesPushes = false
  /// The user takes no call now.
  var isBusy = false
  /// The user is in an answered call.
  var isInCall = false
  /// Devices of the user wait for the first ones, or are in too many calls.
  var holdsDevices = false
  /// The first devices are gone, so the questions ask the user's shard to let the others ring.
  var wantsOthers = false
  /// The user's shard has not answered such a question yet.
  var awaitsOthers = false
  /// The user's device that has the call, as in the last question to the user's shard.
  var talking: DeviceID?
  /// The call came to the user as a member of a group, so the user's own rules for forwarding do not hold.
  var isMember = false
  /// Until when the call waits for the user's shard.
  var awaitedUntil: Timestamp
  /// When to ask next.
  var askAt: Timestamp
  /// The users to whom the call goes on if it is not answered, and when; the distant future: never.
  var onNoAnswer: [String] = []
  var noAnswerAt = Timestamp.distantFuture

  /// How long a call waits for a guest's shard: longer than a shard takes to get another owner.
  static let answerTimeout: Span = .seconds(15)
  /// The interval between questions while the call rings there, and while it does not.
  static let ringingInterval: Span = .seconds(1)
  static let restingInterval: Span = .seconds(5)
  /// The maximum age of an answer by which devices are pushed: an older one may name a token that now belongs to
  /// another user. Longer than the interval between questions.
  private static let freshness: Span = .seconds(6)

  init(user: String, at now: Timestamp) {
    self.user = user
    awaitedUntil = now + Self.answerTimeout
    askAt = now
  }

  /// The call does not end before the user's shard has answered.
  var isAwaited: Bool { !isKnown || awaitsOthers }

  /// The devices that may be pushed; nil: the user's shard has to be asked first which tokens they have now.
  mutating func pushable(at now: Timestamp) -> [User.Device]? {
    if now <= answeredAt + Self.freshness { return devices }
    (owesPushes, askAt) = (true, min(askAt, now))
    return nil
  }

  mutating func awaitAnswer(at now: Timestamp) {
    isKnown = false
    (wantsOthers, awaitsOthers) = (false, false)
    (awaitedUntil, askAt) = (now + Self.answerTimeout, now)
  }

  mutating func awaitOthers(at now: Timestamp) {
    (wantsOthers, awaitsOthers) = (true, true)
    (awaitedUntil, askAt) = (now + Self.answerTimeout, now)
  }
}

/// The shard of a diverted call asks the shard of a user for the devices that may ring.
public struct VisitRequest: Sendable, Equatable {
  public var call: CallID
  /// The user whose shard has the call; a user of the same app.
  public var callee: String
  /// The user who placed it.
  public var caller: String
  /// The display name of the caller; empty: there is none.
  public var callerName = ""
  /// The user's device that has answered, and when the call was answered; nil: the call rings.
  public var answeredBy: DeviceID?
  public var answeredAt: Timestamp?
  /// Whether a user in a call is busy; nil: the cluster's setting holds.
  public var busyWhileInCall: Bool?
  /// The call came to the user as a member of a group.
  public var isMember = false
  /// For a transfer after consultation: the answered call in which one of the user's devices was consulted. If the
  /// user's shard knows that call, the user counts as free.
  public var consulted: CallID?
  /// The later of two questions about a call has the greater number; 0: an earlier version asked.
  public var number: UInt64 = 0
  /// Another user has answered, or the call is over, so devices of this user only need their stops.
  public var isOver = false
  /// The number of the ringing: 0 for the first one, n for the n-th transfer. Each counts for the caller's rate.
  public var round: UInt8 = 0
  /// None of the user's first devices rings any longer, so the others are to ring early.
  public var wantsOthers = false
  /// For how long from now on it rings at the user at most; nil: an earlier version asked.
  public var ringsFor: Span?
  public init(
    call: CallID, callee: String, caller: String, answeredBy: DeviceID? = nil,
    busyWhileInCall: Bool? = nil
  ) {
    self.call = call
    self.callee = callee
    self.caller = caller
    self.answeredBy = answeredBy
    self.busyWhileInCall = busyWhileInCall
  }
}

/// The answer of the user's shard.
public struct VisitAnswer: Sendable, Equatable {
  public struct Device: Sendable, Equatable {
    public var id: DeviceID
    public var name: String
    public var session: SessionRef?
    /// The registration of a device that a push can reach.
    public var registration: Registration?
    /// The device does not begin to ring now: it is in too many calls, other devices ring first, or it never rings and
    /// only takes notices.
    public var isHeld: Bool
    var mayRing: Bool { session != nil || registration?.ringToken != nil }
    public init(
      id: DeviceID, name: String = "", session: SessionRef? = nil,
      registration: Registration? = nil, isHeld: Bool = false
    ) {
      self.isHeld = isHeld
      self.id = id
      self.name = name
      self.session = session
      self.registration = registration
    }
  }

  /// All devices that can be reached or take notices. The call treats the session of any other device as lost.
  public var devices: [Device]
  /// False while the shard does not know all sessions: there may be more devices.
  public var isComplete: Bool
  /// The user takes no call now.
  public var isBusy: Bool
  /// The user is in an answered call.
  public var isInCall: Bool
  /// Why the call is to go on at once; nil: it rings here.
  public var diverted: DivertReason?
  /// The users to whom it goes on: at once if `diverted` is set, or else if it is not answered in time.
  public var to: [String]
  public var noAnswerAfter: Span
  /// For a group whose members ring one after the other: how long each rings.
  public var ringSlot: Span?
  public init(
    devices: [Device] = [], isComplete: Bool = true, isBusy: Bool = false, isInCall: Bool = false,
    diverted: DivertReason? = nil, to: [String] = [], noAnswerAfter: Span = .seconds(20)
  ) {
    self.devices = devices
    self.isComplete = isComplete
    self.isBusy = isBusy
    self.isInCall = isInCall
    self.diverted = diverted
    self.to = to
    self.noAnswerAfter = noAnswerAfter
  }
}

extension DeviceID {
  private static let separator = "\u{1f}"

  init(ofGuest user: String, _ device: DeviceID) {
    self.init(user + Self.separator + device.text)
  }

  /// Whether it names a device of this user, to whom a call went on.
  func isOfGuest(_ user: String) -> Bool { text.utf8.starts(with: (user + Self.separator).utf8) }

  /// The name of a device in the journal, for people.
  public var shown: String { text.split(separator: Self.separator).joined(separator: "/") }
}

extension PlacedFacts {
  /// The name of a device in the call and its journal: its id for a device of the callee, user and id for another
  /// user's. No id has the separator.
  package func key(_ user: String, _ device: DeviceID) -> DeviceID {
    user.hasBytes(of: callee.user) ? device : DeviceID(ofGuest: user, device)
  }

  func key(of party: Party) -> DeviceID { key(party.user, party.device) }

  /// Whether the call may ring a device of the callee, by its placing.
  func mayRing(_ device: DeviceID) -> Bool { onlyDevice.map { $0 == device } ?? true }
}
