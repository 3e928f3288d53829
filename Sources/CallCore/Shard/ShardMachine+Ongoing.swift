/// The view that a user's devices have of the calls that the user is in (R21), where an app wants that. A user has a
/// board while a session shows it, and some time longer. Soft state: a new owner makes it from the journal and from the
/// edges' announcements.
extension ShardMachine {
  /// The user's answered calls may have changed: they are looked at when the command is done.
  mutating func noteOngoing(of key: UserKey) {
    guard boards[key]?.isNoted == false else { return }
    boards[key]?.isNoted = true
    changedBoards.append(key)
  }

  /// A session begins, or is announced, whose device is to see the user's calls.
  /// - Returns: the present state, for the reply.
  mutating func watchOngoing(
    _ command: Command, shown: OngoingMark, isInReply: Bool, _ turn: inout Turn
  ) -> OngoingCalls? {
    if boards[command.user] == nil { boards[command.user] = OngoingBoard(epoch: epoch) }
    // The others first, so that this session, which gets the state with its reply, is not sent it again.
    updateBoard(of: command.user, joining: command.session, &turn)
    boards[command.user]?.watch(
      command.device, command.session, shown: shown, isInReply: isInReply, epoch: epoch)
    sendBoard(of: command.user, &turn)
    return boards[command.user]?.state
  }

  /// Shows what has changed.
  mutating func showOngoing(_ turn: inout Turn) {
    while let key = changedBoards.popLast() {
      boards[key]?.isNoted = false
      updateBoard(of: key, &turn)
      sendBoard(of: key, &turn)
    }
  }

  /// All sessions are known now.
  mutating func beginOngoing(_ turn: inout Turn) {
    changedBoards = Array(boards.keys)
    showOngoing(&turn)
  }

  /// Does what is due at a board.
  mutating func fireBoards(_ turn: inout Turn) {
    while let due = boardDeadlines.popDue(now: turn.now) {
      guard boards[due.key]?.armedAt == due.at else { continue }
      boards[due.key]?.armedAt = .distantFuture
      updateBoard(of: due.key, &turn)
      sendBoard(of: due.key, &turn)
    }
  }

  /// - Parameter joining: a session that is about to be added.
  private mutating func updateBoard(
    of key: UserKey, joining: SessionRef? = nil, _ turn: inout Turn
  ) {
    let user = users[key]
    let isKept = boards[key]?.keepWatchers(at: turn.now) {
      user?.device($0.device)?.session == $0.session
    }
    guard joining != nil || isKept == true else {
      boards[key] = nil
      return
    }
    let list = ongoingCalls(of: key, turn)
    boards[key]?.show(list)
    let visitsEnd = visits.answered(key, now: turn.now).map(\.until).min() ?? .distantFuture
    let talkEnds = user?.talkEndsAt(after: turn.now, turn.limits) ?? .distantFuture
    boards[key]?.staleAt = min(visitsEnd, talkEnds)
  }

  /// Before a new owner begins it sends nothing.
  private mutating func sendBoard(of key: UserKey, _ turn: inout Turn) {
    guard turn.isServing else { return }
    tally.deliveryRepeatsTotal += UInt64(boards[key]?.send(&turn) ?? 0)
    guard let next = boards[key]?.nextDeadline, next < boards[key]?.armedAt ?? next else { return }
    boards[key]?.armedAt = next
    boardDeadlines.insert(key, at: next)
  }

  /// The answered calls to a user, those that went on to it, and those that it placed as far as edges have reported them.
  private func ongoingCalls(of key: UserKey, _ turn: borrowing Turn) -> [OngoingCall] {
    guard let user = users[key] else { return [] }
    let now = turn.now
    var list = user.calls.compactMap { id in calls.slot(of: id).flatMap { calls[$0].ongoing } }
    for device in user.devices where device.isTalking(at: now, limits) {
      list += device.ongoingPlaced(by: key.user)
    }
    for visit in visits.answered(key, now: now) {
      // A call that was handed back to its callee is among the user's own.
      let isOwn = calls.slot(of: visit.call).map { calls[$0].facts.callee == key } ?? false
      guard let id = visit.answeredBy, !isOwn else { continue }
      list.append(
        OngoingCall(
          call: visit.call, callee: visit.callee, isPlaced: false, device: id,
          deviceName: user.device(id)?.name ?? "", peer: visit.caller, peerName: visit.callerName,
          since: visit.answeredAt ?? visit.since))
    }
    guard list.count > 1 else { return list }
    list.sort { ($0.since, $0.call.high, $0.call.low) < ($1.since, $1.call.high, $1.call.low) }
    return Array(list.prefix(OngoingCalls.callsMax))
  }
}

extension Call {
  /// The callee's side of the call; nil where it is not answered.
  fileprivate var ongoing: OngoingCall? {
    guard case .answered(let conversation) = stage, isTalking(facts.callee.user) else { return nil }
    let device = legs[conversation.winner].party
    return OngoingCall(
      call: id, callee: facts.callee.user, isPlaced: false, device: device.device,
      deviceName: device.deviceName, peer: facts.caller.user, peerName: facts.caller.name,
      since: conversation.answer.at)
  }
}

extension User.Device {
  /// Its side of the calls that it has placed. Edges of earlier versions do not say to whom.
  fileprivate func ongoingPlaced(by user: String) -> [OngoingCall] {
    guard let talking else { return [] }
    return zip(talking.calls, talking.details).map { call, detail in
      OngoingCall(
        call: call, callee: detail.callee, isPlaced: true, device: id, deviceName: name,
        peer: detail.other, since: detail.since)
    }
  }
}

extension User {
  /// When the first of the calls is over that devices without a session have placed.
  fileprivate func talkEndsAt(after now: Timestamp, _ limits: CallLimits) -> Timestamp? {
    devices.compactMap { device in
      guard device.isTalking(at: now, limits) else { return nil }
      return device.talkingStaleSince.map { $0 + limits.resumeGraceAnswered }
    }.min()
  }
}
