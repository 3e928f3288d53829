import CallCore
import CallJudge

/// Judges calls to groups: who rings, in which order, for how long, and how devices that the call leaves are notified.
extension CallRecord {
  /// A member may ring, and the next one may ring after it, by this much off its time.
  static let turnSlack: Span = .seconds(1)

  /// A group's member: what it was asked, and what it did.
  private struct Member {
    let user: Int
    let devices: [DeviceRecord]
    var isRung: Bool { rungAt != nil }
    /// When the first of the devices rang.
    let rungAt: Timestamp?
    /// When the cluster sent the first invite.
    let askedAt: Timestamp?
    /// When it gave the call on: it declined, or each device that rang was busy.
    let passedAt: Timestamp?

    init(_ user: Int, _ devices: [DeviceRecord]) {
      self.user = user
      self.devices = devices
      rungAt = devices.compactMap(\.invitedAt).min()
      askedAt = devices.compactMap(\.inviteSentAt).min()
      let busy = devices.filter { $0.invitedAt != nil }.map { $0.time(of: .busy) }
      let allBusyAt =
        busy.isEmpty || busy.contains { $0 == nil } ? nil : busy.compactMap(\.self).max()
      passedAt = devices.compactMap { $0.time(of: .declineEverywhere) }.min() ?? allBusyAt
    }
  }

  private func member(_ user: Int) -> Member {
    Member(user, callees.filter { roster.user(of: $0.device) == user })
  }

  mutating func examineGroup(_ timeline: FaultTimeline) {
    guard let group = facts.route.group, group.isInTurn else { return }
    let members = group.members.map(member)
    examineOrder(of: members, group, timeline)
    let rung = members.filter(\.isRung).sorted { ($0.askedAt ?? .zero) < ($1.askedAt ?? .zero) }
    for (one, next) in zip(rung, rung.dropFirst()) { examineTurn(of: one, next, group, timeline) }
    if let last = rung.last { examineNext(after: last, members, group, timeline) }
  }

  // MARK: In turn

  /// Members ring in their order, and none is left out that could be reached.
  private mutating func examineOrder(
    of members: [Member], _ group: GroupTerms, _ timeline: FaultTimeline
  ) {
    // A new owner of the group's shard may not know who was in a call before.
    let isFree =
      group.order == .longestIdle
      && (!group.isOrderKnown
        || timeline.disturbed(.shard(shard), from: .zero, to: .distantFuture) != nil)
    guard !isFree else { return }
    for (place, member) in members.enumerated() {
      guard let askedAt = member.askedAt else { continue }
      for earlier in members[..<place] {
        if let other = earlier.askedAt, other <= askedAt { continue }
        if !earlier.isRung, isExcused([earlier, member], timeline) { continue }
        return violate(
          .forwardedWrongly,
          "\(name(of: member)) rang before \(name(of: earlier)), whose turn comes first")
      }
    }
  }

  /// The next member rings when the turn before it is over, and not sooner.
  private mutating func examineTurn(
    of one: Member, _ next: Member, _ group: GroupTerms, _ timeline: FaultTimeline
  ) {
    guard let began = one.askedAt, let asked = next.askedAt, let rungAt = next.rungAt,
      !isExcused([one, next], timeline)
    else { return }
    if let passedAt = one.passedAt, passedAt <= rungAt { return }
    guard asked + Self.turnSlack < began + group.turn else { return }
    violate(
      .forwardedWrongly,
      "\(name(of: next)) rang \((asked - began).microseconds / 1000) ms after "
        + "\(name(of: one)), whose turn was not over")
  }

  /// The turn of the last one that rang was over, and no other began.
  private mutating func examineNext(
    after last: Member, _ members: [Member], _ group: GroupTerms, _ timeline: FaultTimeline
  ) {
    guard members.contains(where: { !$0.isRung }), let rungAt = last.rungAt,
      let over = callOverAt, !isExcused(members, timeline)
    else { return }
    let due = last.passedAt ?? rungAt + group.turn
    guard due + Self.turnSlack + CallChecker.skew < over else { return }
    violate(
      .forwardedWrongly,
      "the turn of \(name(of: last)) was over, and the next member never rang")
  }

  /// When somebody answered, or the call ended, as far as it is seen.
  private var callOverAt: Timestamp? {
    let answers = callees.compactMap { $0.time(of: .answer) }
    return (answers + [caller.time(of: .cancel), caller.end?.at, ringsOutAt].compactMap(\.self))
      .min()
  }

  /// Whether one of their devices, or a shard that has to do with them, was in trouble since the call was placed.
  private func isExcused(_ members: [Member], _ timeline: FaultTimeline) -> Bool {
    let devices = members.flatMap(\.devices)
    return devices.contains { !$0.stayedAttached }
      || timeline.isDisturbed(
        shards: [shard] + members.map { timeline.shard(ofUser: roster.userName($0.user)) },
        or: devices.map(\.device), from: facts.placedAt, to: trace.last?.at ?? facts.placedAt)
  }

  private func name(of member: Member) -> String { roster.userName(member.user) }

  // MARK: Ends of one user's part

  /// Whether a device's end is that of its user's part in the call, which may ring on for others.
  func hasOwnEnd(_ device: DeviceRecord) -> Bool {
    device.end.map { isOwnEnd($0, of: device) } ?? false
  }

  func isOwnEnd(_ end: DeviceRecord.End, of device: DeviceRecord) -> Bool {
    guard let group = facts.route.group, device.device != facts.caller else { return false }
    switch end.reason {
    case .declined:
      return end.by.map {
        roster.user(of: $0) == roster.user(of: device.device)
          && record(of: $0)?.acts.contains(.declineEverywhere) == true
      } ?? false
    case .unanswered: return group.isInTurn && !end.missed && isTurnOver(of: device, group, end)
    default: return false
    }
  }

  /// Whether another member rang after a device's, or the time for that had come.
  private func isTurnOver(
    of device: DeviceRecord, _ group: GroupTerms, _ end: DeviceRecord.End
  ) -> Bool {
    let own = member(roster.user(of: device.device))
    guard let began = own.askedAt else { return true }
    let isNextRung = group.members.contains { user in
      user != own.user && member(user).askedAt.map { began < $0 } ?? false
    }
    return isNextRung || earliestBegin(of: own, group) + group.turn <= end.at + Self.turnSlack
  }

  /// When a member's turn began at the earliest: the shard has decided it when the one before was over, and an outage
  /// may delay its invites.
  private func earliestBegin(of own: Member, _ group: GroupTerms) -> Timestamp {
    let asked = own.askedAt ?? .distantFuture
    let former = group.members.map(member).filter { $0.askedAt.map { $0 < asked } ?? false }
      .max { ($0.askedAt ?? .zero) < ($1.askedAt ?? .zero) }
    guard let former else { return min(asked, acceptedAt ?? asked) }
    return min(asked, former.passedAt ?? earliestBegin(of: former, group) + group.turn)
  }

  /// Whether a device of a group's member can have been too late for its turn at a time.
  func isTurnOver(for device: Int, at time: Timestamp) -> Bool {
    guard let group = facts.route.group, group.isInTurn, device != facts.caller,
      let began = member(roster.user(of: device)).askedAt
    else { return false }
    return began + group.turn <= time + Self.turnSlack
  }

  /// Whether the turn of a device's member was over, and another member's was next.
  func gaveItsTurnOn(_ device: Int, at time: Timestamp) -> Bool {
    guard let group = facts.route.group, isTurnOver(for: device, at: time) else { return false }
    let own = member(roster.user(of: device))
    return group.members.contains { user in
      user != own.user && (member(user).askedAt ?? .distantFuture) > (own.askedAt ?? .zero)
    }
  }

  /// The callee's devices of the same user. One user's refusals are not another's.
  func family(of device: Int) -> [DeviceRecord] {
    guard facts.route.group != nil else { return callees }
    return callees.filter { roster.user(of: $0.device) == roster.user(of: device) }
  }

  /// In turn only members ring whose turn has come; nil: all devices ring at once.
  func isAsked(_ device: DeviceRecord) -> Bool {
    guard let group = facts.route.group, group.isInTurn else { return true }
    return family(of: device.device).contains { $0.invitedAt != nil }
  }
}
