/// Histories of users (`HistoryLog`), which are in the store. The shard of an ended call adds the entries of both
/// sides, and a user's shard shows the history's state to the user's sessions.
extension ShardMachine {
  /// The entries that an ended call still lacks in the store, with their users; empty: it lacks none.
  public func historyEntries(of id: CallID) -> [(user: UserKey, entry: HistoryEntry)] {
    guard let slot = calls.slot(of: id), calls[slot].lacking(storedParts).contains(.history) else {
      return []
    }
    return calls[slot].historyEntries
  }

  /// The question how many missed calls are unread, for the number in a push; nil: the push has no number.
  ///
  /// A driver asks it when the push leaves, and reads the store afterwards. The question names the entries that the
  /// store lacks now, so none is missing.
  public func unreadQuestion(of job: PushJob) -> UnreadQuestion? {
    guard job.purpose.showsUnread, storedParts.contains(.history),
      let slot = calls.slot(of: job.call),
      calls[slot].facts.subscriptions.contains(.history)
    else { return nil }
    var question = UnreadQuestion(user: job.user)
    if let missed = calls[slot].missedTransfer(by: job.user.user) {
      question.missed.append(missed)
    } else if calls[slot].facts.callee != job.user,
      let missed = calls[slot].missedUnstored(storedParts, by: job.user)
    {
      // A user to whom the call went on may be of another shard, which knows the user's other calls.
      question.missed.append(missed)
    }
    guard let user = users[job.user] else { return question }
    for ids in [user.calls[...], user.settledCalls.all] {
      question.missed += ids.compactMap { id in
        calls.slot(of: id).flatMap { calls[$0].missedUnstored(storedParts, by: job.user) }
      }
    }
    return question
  }

  /// A command about the history of its user.
  mutating func history(_ command: Command, _ body: HistoryCommand, _ turn: inout Turn) {
    switch body {
    case .changed:
      historyChanged(command.user, &turn)
      turn.reply(command, .done, command.body.urgency)
    case .list, .markRead:
      guard command.request != 0 else { return }
      guard storedParts.contains(.history) else {
        return turn.reply(command, .error(CallError(.forbidden, Self.noHistory)))
      }
      turn.perform(
        .history(
          .answer(command.session, request: command.request, command.user, body)))
    }
  }

  private static let noHistory = "The cluster keeps no histories: see historyKept."

  /// A session begins, or is announced, and its device wants to see the state of the user's history.
  mutating func watchHistory(_ command: Command, _ mark: HistoryMark, _ turn: inout Turn) {
    guard storedParts.contains(.history) else { return }
    historyBoards[command.user, default: HistoryBoard()].watch(
      command.device, command.session, shown: mark.shown)
    tendHistory(of: command.user, &turn)
  }

  /// The store has a new message in a user's history, or may have one.
  /// - Parameter openMark: a mark that was sent to the store; nil: no mark, or the store has it.
  public mutating func historyChanged(
    _ user: UserKey, openMark: HistoryCursor? = nil, now: Timestamp, into outcome: inout Outcome
  ) {
    var turn = turn(at: now, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    historyChanged(user, openMark: openMark, &turn)
  }

  private mutating func historyChanged(
    _ user: UserKey, openMark: HistoryCursor? = nil, _ turn: inout Turn
  ) {
    guard historyBoards[user] != nil else { return }
    historyBoards[user]?.changed(openMark: openMark)
    tendHistory(of: user, &turn)
  }

  /// The driver has read a user's history.
  /// - Parameter state: nil: the store could not be read.
  public mutating func historyRead(
    _ user: UserKey, _ state: HistoryState?, now: Timestamp, into outcome: inout Outcome
  ) {
    var turn = turn(at: now, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    historyBoards[user]?.wasRead(state, now: now)
    tendHistory(of: user, &turn)
  }

  /// Serves the boards that are due.
  mutating func fireHistories(_ turn: inout Turn) {
    while let due = historyDeadlines.popDue(now: turn.now) {
      guard historyBoards[due.key]?.armedAt == due.at else { continue }
      historyBoards[due.key]?.armedAt = .distantFuture
      tendHistory(of: due.key, &turn)
    }
  }

  /// The new owner begins: it knows all sessions now.
  mutating func beginHistories(_ turn: inout Turn) {
    for key in Array(historyBoards.keys) { tendHistory(of: key, &turn) }
  }

  /// Reads and sends what is due. A new owner does neither before it begins.
  private mutating func tendHistory(of key: UserKey, _ turn: inout Turn) {
    guard turn.isServing, historyBoards[key] != nil else { return }
    forgetWatchers(of: key)
    if historyBoards[key]?.beginRead(now: turn.now) == true {
      turn.perform(.history(.read(key, storing: historyBoards[key]?.openMark)), .relaxed)
    }
    tally.deliveryRepeatsTotal += UInt64(historyBoards[key]?.send(&turn) ?? 0)
    guard let board = historyBoards[key], board.nextDeadline < board.armedAt else { return }
    historyBoards[key]?.armedAt = board.nextDeadline
    historyDeadlines.insert(key, at: board.nextDeadline)
  }

  /// Drops the sessions that are over, and the board with the last one.
  mutating func forgetWatchers(of key: UserKey) {
    let user = users[key]
    let isKept = historyBoards[key]?.keepWatchers {
      user?.device($0.device)?.session == $0.session
    }
    if isKept == false { historyBoards[key] = nil }
  }
}
