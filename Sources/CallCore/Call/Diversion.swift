/// Why a call went on to other users than the one who was called. Raw values are the journal's.
public enum DivertReason: UInt8, Sendable, CaseIterable {
  /// The user has all calls forwarded.
  case always = 1
  /// The user is in a call, or all of the user's devices are.
  case busy = 2
  /// Nobody answered in the time that the user's rules give.
  case noAnswer = 3
  /// No device of the user could be reached.
  case unreachable = 4
  /// The user wants no calls at present.
  case doNotDisturb = 5
  /// The app's hook said so.
  case hook = 6
  /// The user declined. The call rings on for others, or goes on to the next member of a group.
  case declined = 7
  /// The user is a group.
  case group = 8
  /// A member of a group did not answer in its turn, or cannot be reached.
  case turn = 9
  /// A device that has an answered call hands it over.
  case transferred = 10

  public var name: String { "\(self)" }

  /// Whether a call that goes on to somebody for it goes on to a group's next member.
  var goesToNextMember: Bool { self == .turn || self == .declined }
}

/// A call leaves a user, and as a rule goes on to others. The devices of the user that it leaves ring no more.
public struct DivertedFacts: Sendable, Equatable {
  /// The user that it leaves: the callee, or one to whom it was diverted before.
  public var from: String
  /// Users of the same app, who ring together.
  public var to: [String]
  public var reason: DivertReason
  /// The device that declined.
  public var by: Party?
  public var at: Timestamp
  /// Until when it rings now.
  public var deadline: Timestamp
  /// The members of a group who ring one after the other, in their order: `to` has the first one. Empty: all ring
  /// together.
  public var queue: [String] = []
  /// How long each of them rings.
  public var ringSlot: Span = .seconds(0)
  /// For a transfer: the only device that is to ring; nil: all do.
  public var device: DeviceID?
  /// For a transfer: the call in which that device was asked before.
  public var consulted: ConsultedCall?
  /// For a transfer: the device's number for the command. A new owner, too, knows a command that comes again.
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
  /// How the call came to a user; nil: it did not, or was placed to the user.
  private func way(to user: String) -> DivertedFacts? {
    first { $0.to.contains { $0.hasBytes(of: user) } }
  }

  /// How the call came to the group as whose member a user has its turn; nil: the user rings for another reason, although it
  /// may be a member, or all members ring together.
  func queue(of user: String) -> DivertedFacts? {
    guard let way = way(to: user) else { return nil }
    guard way.queue.isEmpty else { return way }
    guard way.reason.goesToNextMember else { return nil }
    return first { $0.queue.contains { $0.hasBytes(of: user) } }
  }

  /// From whom the call came to a user, which is the group for each of its members; empty: from nobody.
  func sender(to user: String) -> String { (queue(of: user) ?? way(to: user))?.from ?? "" }
}

extension [DivertedFacts] {
  /// To whom the call went on, each user once. Whoever calls a group need not know its members.
  var targets: [String] {
    var users: [String] = []
    for user in lazy.filter({ $0.reason != .group && !$0.reason.goesToNextMember }).flatMap(\.to)
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
    // It was not meant to ring there, or another member may still answer.
    case .always, .hook, .group, .turn, .transferred: Stop(reason: .unanswered)
    case .busy, .noAnswer, .unreachable, .doNotDisturb: Stop(reason: .unanswered, missed: true)
    }
  }
}

/// Where a call goes on to, and in what order.
public struct DivertTargets: Sendable, Equatable {
  public var users: [String]
  /// How long each rings before the next one does; nil: all ring together.
  public var ringSlot: Span?
  public init(_ users: [String], ringSlot: Span? = nil) {
    self.users = users
    self.ringSlot = ringSlot
  }
}

/// Where a call goes on if it is not answered at a user, by the user's rules; a list that is empty: nowhere.
struct Forwarding: Sendable, Equatable {
  var onBusy: [String] = []
  var onUnreachable: [String] = []
  var onNoAnswer: [String] = []
  /// For how long it rings before `onNoAnswer` holds.
  var noAnswerAfter: Span = .seconds(20)
  /// The devices that ring first, and for how long alone; empty: all ring at once.
  var firstDevices: [DeviceID] = []
  var firstFor: Span = .seconds(10)

  /// How long the first devices ring alone. The others have their share of the ring.
  /// - Parameters:
  ///   - ring: how long the call rings at the user, unless the user's rules end that earlier.
  ///   - isFixed: it rings no longer elsewhere.
  func firstFor(ofRing ring: Span, isFixed: Bool) -> Span {
    let ring = onNoAnswer.isEmpty ? ring : noAnswerFor(ofRing: ring, isFixed: isFixed)
    return min(firstFor, ring.withoutLastShare)
  }

  /// How long the call rings at the user before `onNoAnswer` holds. Where the whole time is fixed, those to whom it goes on
  /// have their share of it.
  func noAnswerFor(ofRing ring: Span, isFixed: Bool) -> Span {
    min(noAnswerAfter, isFixed ? ring.withoutLastShare : ring)
  }
}

extension Span {
  /// Longer than a person needs to reach a phone that begins to ring.
  private static let lastShare = Span.seconds(10)

  /// A ring without the time that those have who ring last: 10 s, or half of it where that is less.
  var withoutLastShare: Span {
    Span(microseconds: microseconds - min(Self.lastShare.microseconds, microseconds / 2))
  }
}

/// A user to whom a call was diverted. The call's shard has the call, and the user's shard knows the user's devices: it
/// is asked again and again while they ring. So nothing needs to be remembered there, and whichever shard moves, the
/// next question restores what is known.
struct Guest: Sendable {
  let user: String
  /// As the user's shard said last.
  var devices: [User.Device] = []
  /// The user's shard has said all that it can to this owner of the call. Until then the call waits for it.
  var isKnown = false
  /// When the user's shard has answered last.
  var answeredAt = Timestamp(microseconds: 0)
  /// Pushes to devices of the user wait for the next answer.
  var owesPushes = false
  /// The user takes no call now.
  var isBusy = false
  /// The user is in an answered call.
  var isInCall = false
  /// Devices of the user wait for the first ones, or are in too many calls.
  var holdsDevices = false
  /// The first devices are gone: the user's shard is told to let the others ring.
  var wantsOthers = false
  /// It has not answered that yet.
  var awaitsOthers = false
  /// Which of its devices has the call, as the user's shard was told last.
  var talking: DeviceID?
  /// The call came to the user as to a member of a group: the user's own rules for forwarding do not hold.
  var isMember = false
  /// Until when the call waits.
  var awaitedUntil: Timestamp
  /// When to ask next.
  var askAt: Timestamp
  /// Where the call goes on if nobody answers, and when; the distant future: nowhere.
  var onNoAnswer: [String] = []
  var noAnswerAt = Timestamp.distantFuture

  /// How long a call waits for the shard of a user to whom it was diverted: longer than a shard takes to get another
  /// owner.
  static let answerTimeout: Span = .seconds(15)
  /// How often it asks while it rings there, and while it does not.
  static let ringingInterval: Span = .seconds(1)
  static let restingInterval: Span = .seconds(5)
  /// The age of an answer by which devices are still pushed: an older one may name a token that is another user's by now.
  /// Longer than the time between two questions.
  private static let freshness: Span = .seconds(6)

  init(user: String, at now: Timestamp) {
    self.user = user
    awaitedUntil = now + Self.answerTimeout
    askAt = now
  }

  /// The call does not end before the user's shard has answered.
  var isAwaited: Bool { !isKnown || awaitsOthers }

  /// The devices that may be pushed; nil: the user's shard has to say first which tokens they have now.
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
  /// Who placed it.
  public var caller: String
  /// The display name of who placed it; empty: there is none.
  public var callerName = ""
  /// The user's device that has answered, and when the call was answered; nil: the call rings.
  public var answeredBy: DeviceID?
  public var answeredAt: Timestamp?
  /// Whether a user in a call is busy; nil: what the cluster says.
  public var busyWhileInCall: Bool?
  /// The call came to the user as to a member of a group.
  public var isMember = false
  /// A transfer after consultation: the answered call in which one of the user's devices was asked. Where the user's
  /// shard knows of it, the user counts as free.
  public var consulted: CallID?
  /// The later of two questions about a call has the greater number; 0: the question is of an earlier version.
  public var number: UInt64 = 0
  /// Another user has answered, or the call is over: devices of this user only lack their stops.
  public var isOver = false
  /// Which ringing of the call it is: 0 the first one, n the n-th transfer. Each counts for the caller's rate.
  public var round: UInt8 = 0
  /// None of the user's first devices rings any more: the others are to ring before these had their time.
  public var wantsOthers = false
  /// For how long from now on it rings at the user at most; nil: not said, as by an earlier version.
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
    /// It does not begin to ring now: it is in too many calls, or others ring before it.
    public var isHeld: Bool
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

  /// Those that can be reached. All of them: the call takes the session of any other one for lost.
  public var devices: [Device]
  /// False while the shard does not know all sessions: there may be more devices.
  public var isComplete: Bool
  /// The user takes no call now.
  public var isBusy: Bool
  /// The user is in an answered call.
  public var isInCall: Bool
  /// Whether the call is to go on at once, and why; nil: it rings here.
  public var diverted: DivertReason?
  /// To whom it goes on, at once if `diverted` says so. Otherwise if nobody answers in time.
  public var to: [String]
  public var noAnswerAfter: Span
  /// Where the user is a group whose members ring one after the other: for how long each does.
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
  /// By which the call and its journal name a device: the callee's by its id, another user's by both ids. No id has
  /// the separator.
  package func key(_ user: String, _ device: DeviceID) -> DeviceID {
    user.hasBytes(of: callee.user) ? device : DeviceID(ofGuest: user, device)
  }

  func key(of party: Party) -> DeviceID { key(party.user, party.device) }

  /// Whether the call, as it was placed, may ring a device of the callee.
  func mayRing(_ device: DeviceID) -> Bool { onlyDevice.map { $0 == device } ?? true }
}
