/// Calls that were diverted to users of other shards. The call's shard asks the user's shard for the devices.
extension ShardMachine {
  /// The devices and the state of a user whom a call is to ring.
  struct Reach {
    /// All devices that can be reached.
    var all: [User.Device]
    /// The devices of `all` that ring now: they are not in too many calls.
    var devices: [User.Device]
    /// The devices of `all` that wait until `devices` have rung alone.
    var others: [User.Device] = []
    var isInCall: Bool
    /// The user takes no call now.
    var isBusy: Bool
    /// The users to whom the call goes on at once; nil: it rings here.
    var diverted: (reason: DivertReason, to: DivertTargets)?
    var forwarding = Forwarding()
  }

  /// Determines how a call reaches a user, before it rings there.
  /// - Parameters:
  ///   - placer: the device that placed it, which is not rung.
  ///   - only: the only device that is rung. Such a call does not go on to others, as one to a group's member does not.
  func reach(
    _ key: UserKey, caller: UserKey, placer: DeviceID?, busyWhileInCall: Bool?,
    isMember: Bool = false, only: DeviceID? = nil, _ turn: borrowing Turn
  ) -> Reach {
    let isMember = isMember || only != nil
    let reached = reached(key, caller: caller, placer: placer, only: only, turn)
    let live = liveCalls(to: key)
    var reach = Reach(
      all: reached, devices: reached.filter { live[$0.id, default: 0] < limits.liveCallsPerDevice },
      isInCall: isInCall(key, turn), isBusy: false)
    let isTaken = reach.isInCall && (busyWhileInCall ?? limits.busyWhileInCall)
    reach.isBusy = !reached.isEmpty && (isTaken || reach.devices.isEmpty)
    guard let rules = users[key]?.rules else { return reach }
    if let group = rules.group {
      // A group that is a member of a group does not ring.
      if isMember { (reach.all, reach.devices, reach.isBusy) = ([], [], false) }
      reach.diverted = isMember ? nil : (.group, targets(of: group, key, turn))
      return reach
    }
    reach.apply(isMember ? rules.ofMember : rules, caller: caller.user, now: turn.now)
    return reach
  }

  /// The callee's first devices have had their time alone: the others ring, too.
  mutating func ringOthers(_ id: CallID, _ turn: inout Turn) {
    guard let slot = calls.slot(of: id), calls[slot].wantsOthers else { return }
    let (facts, caller) = (calls[slot].facts, calls[slot].callerKey)
    let live = liveCalls(to: facts.callee)
    let all = reached(facts.callee, caller: caller, placer: facts.caller.device, turn)
    let devices = all.filter { facts.mayRing($0.id) }.map {
      VisitAnswer.Device($0, isHeld: live[$0.id, default: 0] >= limits.liveCallsPerDevice)
    }
    // An edge may have gone missing since the call was placed, or a device may have lost its session.
    let awaited = all.compactMap { $0.session == nil ? awaitedUntil($0, turn) : nil }
    let until = ([sessionsUnknownUntil(of: facts.callee, turn)] + awaited).compactMap(\.self).max()
    mutate(id) {
      $0.wantsOthers = false
      guard $0.isRinging, $0.rings($0.facts.callee.user) else { return }
      if let until { $0.awaitDevices(until: until) }
      $0.ring($0.facts.callee.user, devices, &turn)
      $0.endIfNobodyIsLeft(&turn)
    }
  }

  // MARK: The user's shard

  /// The shard of a diverted call asks for the devices of a user.
  mutating func visit(_ command: Command, _ request: VisitRequest, _ turn: inout Turn) {
    guard command.request != 0 else { return }
    let key = command.user
    let caller = UserKey(app: key.app, user: request.caller)
    let visit = note(request, of: key, by: caller, turn)
    var reach = reach(
      key, caller: caller, placer: nil,
      busyWhileInCall: request.busyWhileInCall, isMember: request.isMember, turn)
    if let consulted = request.consulted, isConsulted(consulted, key, by: request.caller) {
      reach.admitAll()
    }
    let ring = request.ringsFor.map { turn.now + $0 - visit.since }
    // Not fixed here: the call's shard sees to the time that other users need.
    let firstFor =
      ring.map { reach.forwarding.firstFor(ofRing: $0, isFixed: false) }
      ?? reach.forwarding.firstFor
    if request.wantsOthers || visit.since + firstFor <= turn.now {
      reach.devices += reach.others
    }
    var answer = VisitAnswer(
      isComplete: sessionsUnknownUntil(of: key, turn) == nil, isBusy: reach.isBusy,
      isInCall: reach.isInCall)
    answer.devices = (request.answeredBy == nil ? reach.all : users[key]?.devices ?? []).map {
      device in
      VisitAnswer.Device(device, isHeld: !reach.devices.contains { $0.id == device.id })
    }
    if request.answeredBy == nil { addNoticeDevices(of: key, to: &answer) }
    if let diverted = reach.diverted {
      (answer.diverted, answer.to, answer.ringSlot) = (
        diverted.reason, diverted.to.users, diverted.to.ringSlot
      )
    } else if reach.all.isEmpty, answer.isComplete, !reach.forwarding.onUnreachable.isEmpty {
      (answer.diverted, answer.to) = (.unreachable, reach.forwarding.onUnreachable)
    } else {
      (answer.to, answer.noAnswerAfter) = (
        reach.forwarding.onNoAnswer, reach.forwarding.noAnswerAfter
      )
    }
    if visit.isRefused { answer = VisitAnswer(isBusy: true) }
    // An unanswered question is asked again, so the answer is not urgent; but a call waits for the first one.
    turn.perform(.visitAnswer(command.session, request: command.request, answer), .relaxed)
  }

  /// Adds the devices that never ring, and may get a notice of the missed call.
  private func addNoticeDevices(of key: UserKey, to answer: inout VisitAnswer) {
    for device in users[key]?.devices ?? [] where device.registration?.takesNotices == true {
      if answer.devices.contains(where: { $0.id == device.id }) { continue }
      answer.devices.append(VisitAnswer.Device(device, isHeld: true))
    }
  }

  /// Notes the call, and counts it for its caller's rate like one that was placed to the user: else the rules of others
  /// would be a way around the rate. If the device that has the call has changed, the user's other devices see that.
  private mutating func note(
    _ request: VisitRequest, of key: UserKey, by caller: UserKey, _ turn: borrowing Turn
  ) -> Visits.Visit {
    let (now, perMinute) = (turn.now, limits.callsPerPairPerMinute)
    let before = visits.visit(request.call, to: key, now: now)
    var user = users[key]
    let visit = visits.note(key, request, now: now) {
      user?.admitsPlacing(by: caller, now: now, perMinute: perMinute) ?? true
    }
    if let user { users[key] = user }
    if visit.answeredBy != before?.answeredBy || visit.caller != before?.caller {
      noteOngoing(of: key)
    }
    return visit
  }

  /// The state of another shard's call for a device that a push woke: it rings, as far as this shard knows.
  func visitState(of id: CallID, for key: UserKey, _ turn: borrowing Turn) -> CallState? {
    guard calls.slot(of: id) == nil, let visit = visits.visit(id, to: key, now: turn.now),
      visit.answeredBy == nil, !visit.isOver
    else { return nil }
    return CallState(call: id, callee: visit.callee, phase: .ringing, at: turn.now)
  }

  // MARK: The call's shard

  /// Another owner has recovered a shard. The calls of this shard that its users have, or that ring there, ask it at
  /// once, so that these users count as busy and their devices see the calls.
  /// - Parameter count: how many shards there are.
  public mutating func recovered(
    shard number: Int, of count: Int, now: Timestamp, into outcome: inout Outcome
  ) {
    guard isServing else { return }
    var turn = turn(at: now, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    func isConcerned(_ user: String, of app: String) -> Bool {
      ShardHash.shard(of: UserKey(app: app, user: user), count: count) == number
    }
    let concerned = calls.slots.filter { slot in
      calls[slot].guests.contains { isConcerned($0.user, of: calls[slot].facts.callee.app) }
    }
    for id in concerned.map({ calls[$0].id }) {
      mutate(id) { call in
        let app = call.facts.callee.app
        call.visitAnew(&turn) { isConcerned($0, of: app) }
      }
    }
  }

  /// The shard of a user to whom a call was diverted has answered.
  public mutating func visited(
    _ user: UserKey, _ answer: VisitAnswer, to request: VisitRequest, now: Timestamp,
    into outcome: inout Outcome
  ) {
    guard isServing else { return }
    var turn = turn(at: now, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    guard let slot = calls.slot(of: request.call), calls[slot].facts.callee.app == user.app else {
      return
    }
    mutate(request.call) { $0.visited(user.user, answer, to: request, &turn) }
    carryOutPushes(&turn)
    if !changedBoards.isEmpty { showOngoing(&turn) }
  }
}

extension ShardMachine.Reach {
  /// A device of the user was asked before, and agreed: the user's rules do not hold.
  fileprivate mutating func admitAll() {
    (devices, others, isBusy, diverted) = (all, [], false, nil)
  }

  fileprivate mutating func apply(_ rules: UserRules, caller: String, now: Timestamp) {
    forwarding = Forwarding(rules)
    let isSilent = rules.silences(caller, at: now)
    // Also where all calls are forwarded: this one may have no other user left to go to.
    isBusy = isBusy || isSilent
    if let always = rules.always {
      diverted = (.always, DivertTargets(always.users))
      // It rings here if it has no other user left to go to.
      keepFirst()
      return
    }
    if isBusy {
      diverted = (isSilent ? .doNotDisturb : .busy, DivertTargets(forwarding.onBusy))
    }
    if diverted?.to.users.isEmpty == true { diverted = nil }
    keepFirst()
  }

  /// The first devices ring alone at first, if any of them is there.
  private mutating func keepFirst() {
    let first = devices.filter { forwarding.firstDevices.contains($0.id) }
    if first.isEmpty || first.count == devices.count {
      forwarding.firstDevices = []
    } else {
      others = devices.filter { !forwarding.firstDevices.contains($0.id) }
      devices = first
    }
  }
}

extension UserRules {
  /// Whether a caller's calls ring none of the user's devices.
  fileprivate func silences(_ caller: String, at now: Timestamp) -> Bool {
    guard let silence = doNotDisturb, silence.until.map({ now < $0 }) ?? true else { return false }
    return !silence.except.contains { $0.hasBytes(of: caller) }
  }
}

extension Forwarding {
  init(_ rules: UserRules) {
    self.init()
    onBusy = rules.onBusy?.users ?? []
    onUnreachable = rules.onUnreachable?.users ?? []
    firstDevices = rules.firstDevices
    firstFor = .seconds(Int64(rules.firstSeconds))
    onNoAnswer = rules.onNoAnswer?.users ?? []
    noAnswerAfter = .seconds(Int64(rules.noAnswerSeconds))
  }
}

extension VisitAnswer.Device {
  fileprivate init(_ device: User.Device, isHeld: Bool) {
    self.init(
      id: device.id, name: device.name, session: device.session, registration: device.registration,
      isHeld: isHeld)
  }
}
