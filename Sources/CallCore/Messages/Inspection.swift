/// Gauges and counters of one shard. Counters count since the shard was claimed.
public struct ShardCounts: Sendable, Equatable {
  public var placed = 0
  public var ringing = 0
  public var answered = 0
  /// Ended, but kept for late devices.
  public var endedKept = 0
  public var sessions = 0
  public var registrations = 0
  public var callsPlacedTotal: UInt64 = 0
  public var callsAnsweredTotal: UInt64 = 0
  public var callsEndedTotal: UInt64 = 0
  public var deliveryRepeatsTotal: UInt64 = 0
  /// Calls that were forgotten before their records were stored, or their entries in histories.
  public var recordsLostTotal: UInt64 = 0
  public var historiesLostTotal: UInt64 = 0
  public init() {}

  mutating func add(_ phase: CallPhase, _ change: Int) {
    switch phase {
    case .placed: placed += change
    case .ringing: ringing += change
    case .answered: answered += change
    case .ended: endedKept += change
    case .unknown: break
    }
  }
}

/// "Why did my phone not ring": a call, its legs, and what happened when, per device.
public struct CallInspection: Sendable, Equatable {
  public struct Leg: Sendable, Equatable {
    public var party: Party
    /// waking, delivered, alerting, won, declined, busy, gone or stopped.
    public var state: String
    public var session: SessionRef?
    /// Pushes that were decided for it.
    public var pushes: [PushPurpose]
  }
  public struct Event: Sendable, Equatable {
    public var at: Timestamp
    /// nil: of the call as a whole.
    public var device: DeviceID?
    /// The device's user: caller and callee may have devices of the same id.
    public var user: String?
    /// placed, delivered, repeated, acknowledged, alerting, answered, declined, stopped, push queued,
    /// push accepted, …
    public var what: String
    /// The purpose of the push.
    public var purpose: PushPurpose?
    /// Why a push was rejected or failed, or where the call went.
    public var reason: String?
  }
  public var state: CallState
  public var app: String
  public var caller: Party
  public var legs: [Leg]
  public var timeline: [Event]
  /// Events that the timeline had no room for: of acknowledgements, repetitions and pushes first.
  public var timelineDropped: Int
}

public struct UserInspection: Sendable, Equatable {
  public struct Device: Sendable, Equatable {
    public var device: DeviceID
    public var name: String
    public var session: SessionRef?
    public var client: String
    public var attachedAt: Timestamp?
    public var registration: Registration?
  }
  public var user: UserKey
  public var devices: [Device]
  /// The calls to the user. The calls that it placed are in other users' shards.
  public var calls: UserCalls
}

/// The newest calls of a user: of those to it, or of those that it placed.
public struct UserCalls: Sendable, Equatable {
  public typealias Item = CallSummary

  /// How many are shown. Policy: those that were placed last; the others are counted.
  public static let countMax = 100

  private var calls = Shortlist<Item>(countMax: Self.countMax)

  public init() {}

  /// In the order of their placing.
  public var newest: [Item] { calls.items.reversed() }

  /// Older ones that are not shown.
  public var leftOut: Int { calls.leftOut }

  public mutating func add(_ item: Item) { calls.add(item) }
}

extension ShardMachine {
  /// A call as operators see it; nil when this shard does not hold it.
  public func inspect(call id: CallID) -> CallInspection? {
    guard let slot = calls.slot(of: id) else { return nil }
    let call = calls[slot]
    let legs = call.legs.map {
      CallInspection.Leg(
        party: $0.party, state: $0.state.name, session: $0.endpoint.session, pushes: $0.pushPurposes
      )
    }
    let ways = call.recordDiversions
    let timeline = call.timeline.events.enumerated().map { index, event in
      let (party, time) = (call.party(event.who), call.timeline.time(event))
      return CallInspection.Event(
        at: time, device: party?.device, user: party?.user, what: event.what.name,
        purpose: event.purpose,
        reason: call.timeline.reasons[index] ?? ways.target(of: event.what, at: time))
    }
    return CallInspection(
      state: call.state(for: .caller), app: call.facts.callee.app, caller: call.facts.caller,
      legs: legs, timeline: timeline, timelineDropped: call.timeline.dropped)
  }

  /// A user as operators see it; nil when this shard knows nothing of it.
  public func inspect(user key: UserKey) -> UserInspection? {
    guard let user = users[key] else { return nil }
    let devices = user.devices.map {
      UserInspection.Device(
        device: $0.id, name: $0.name, session: $0.session, client: $0.client,
        attachedAt: $0.session == nil ? nil : $0.attachedAt, registration: $0.registration)
    }
    var found = UserCalls()
    for id in user.settledCalls.all + user.calls {
      if let slot = calls.slot(of: id) { found.add(calls[slot].summary) }
    }
    return UserInspection(user: key, devices: devices, calls: found)
  }
}

extension ShardDirectory {
  /// Adds the calls that a user placed to others. Looks at every call of the shard: not for a worker's
  /// thread.
  public func add(callsPlacedBy user: UserKey, to found: inout UserCalls) {
    for slot in calls.slots where calls[slot].isPlaced(by: user) { found.add(calls[slot].summary) }
  }
}

extension Call {
  /// Whether the user calls another one. A call to the user's own devices counts as one to it.
  fileprivate func isPlaced(by user: UserKey) -> Bool {
    callerKey == user && facts.callee != user
  }

  /// The party to which an event of the timeline belongs; nil: it belongs to the call as a whole.
  fileprivate func party(_ who: UInt8) -> Party? {
    switch who {
    case CallTimeline.call: return nil
    case CallTimeline.caller: return facts.caller
    case CallTimeline.firstNoticed...:
      let index = Int(who - CallTimeline.firstNoticed)
      guard noticedDevices.indices.contains(index) else { return nil }
      return Party(user: facts.callee.user, device: noticedDevices[index])
    default: return legs.indices.contains(Int(who)) ? legs[Int(who)].party : nil
    }
  }
}
