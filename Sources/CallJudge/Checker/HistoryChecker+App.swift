internal import CallCore
package import CallWire

/// The events that a client hands to its app, and the causes of refusals.
extension HistoryChecker {
  mutating func heard(_ who: Who, _ news: AppNews?) throws(HistoryViolation) {
    switch news {
    case .delivered(let call, let event):
      notified(call, who)
      try appHears(who, call, event)
    case .won(let call):
      notified(call, who)
      try appHears(who, call, nil)
    case .gaveUp(let command):
      if case .call(let address, .signal(_, let body)) = command {
        senders.gaveUp(address.call, body)
      }
      let calm = Span.seconds(30)
      try require(
        calendar.calm(for: calm, from: now - calm, now: now) == nil, .commandsAnswered,
        command.address?.call, "\(who) gave a command up though nothing was wrong")
      if case .place(let address, _) = command { gaveUpPlace(address.call, who, true) }
    case .failed(.place(let address, _), let error):
      // The app's server may decide otherwise when the call is placed again.
      gaveUpPlace(address.call, who, error.code.asksForRetry || error.code.isOfHook)
    // It is not delivered, or later than its sender believes.
    case .failed(.call(let address, .signal(_, let body)), _): senders.gaveUp(address.call, body)
    case .ongoing(let calls): shown[who] = calls
    case .failed, nil: break
    }
  }

  /// - Parameter mayBeTaken: whether the cluster may take it all the same.
  private mutating func gaveUpPlace(_ call: CallID, _ who: Who, _ mayBeTaken: Bool) {
    if let facts = calls[call], facts.caller == who, !facts.accepted {
      calls[call]?.givenUp = mayBeTaken
    }
  }

  /// - Parameter event: nil: the device has the call.
  private mutating func appHears(
    _ who: Who, _ call: CallID, _ event: Delivery.Event?
  ) throws(HistoryViolation) {
    guard forgotten[call] == nil, isFollowed(call) else { return }
    var app = calls[call, default: Facts()].told[who, default: Told()].app
    // It takes the call over: its part in it begins anew.
    if event == nil, app.stopped, calls[call]?.tookOver(who) ?? false { app = App() }
    if app.stopped, case .invite(let invite) = event, invite.ringsAnew { app = App() }
    // Its own call gave way to this one, which is over after all: the app waits for that word.
    if app.stopped, case .stop = event, hasGivenWay(who, to: call) { return }
    if app.stopped, case .invite = event {
      try require(
        false, .noInviteAfterStop, call, "the app of \(who) is told to ring after the stop")
    }
    try require(
      !app.stopped, .newsOnce, call, "the app of \(who) hears more of the call after its end")
    func once(_ flag: inout Bool, _ news: String) throws(HistoryViolation) {
      try require(!flag, .newsOnce, call, "the app of \(who) is told twice \(news)")
      flag = true
    }
    switch event {
    case .invite: try once(&app.invited, "to ring")
    case .ringing, .ringsUntil, .moved, .transfer: break
    case .answered: try once(&app.answered, "that somebody answered")
    case nil: try once(&app.won, "that it won")
    case .stop(let stop):
      try require(
        !app.won || stop.reason.followsAnswer || stop.reason == .moved, .winnerStopped, call,
        "the app of \(who) won, and is told \(stop.reason.name)")
      app.stopped = true
    case .signal(let signal): try appHears(who, call, signal, &app)
    }
    calls[call, default: Facts()].told[who, default: Told()].app = app
  }

  private mutating func appHears(
    _ who: Who, _ call: CallID, _ signal: Signal, _ app: inout App
  ) throws(HistoryViolation) {
    guard let (sender, number) = self.app.signal(signal.body), let facts = calls[call] else {
      return
    }
    let what = "the app of \(who) hears signal \(number) of \(sender)"
    if !facts.moves.isEmpty {
      // Before the answer, every device that rings gets what the caller's side sends.
      let isFromCaller = facts.hadSide(sender, ofCaller: true) && who != sender
      let isFromCallee =
        facts.hadSide(sender, ofCaller: false) && facts.hadSide(who, ofCaller: true)
      try require(
        isFromCaller || isFromCallee, .signalsInPlace, call,
        "\(what), which is not the other side")
    } else if sender == facts.caller {
      try require(who != sender, .signalsInPlace, call, "\(what), which is its own")
    } else {
      try require(who == facts.caller, .signalsInPlace, call, "\(what), which is another leg")
      try require(
        (facts.journalWinner ?? sender) == sender, .signalsInPlace, call,
        "\(what), which lost")
    }
    try require(
      signal.kind != .information || facts.journalWinner ?? facts.answeredBy != nil,
      .signalsInPlace, call,
      "\(what), an information before the answer")
    let flaw = app.signals[sender, default: ReceivedSignals()].receive(
      number, epoch: signal.index >> 20, senders.place(of: signal.body, in: call),
      judged: &judged[.signalsInOrder, default: 0])
    try require(flaw != .doubled, .signalsInPlace, call, "\(what) twice")
    try require(flaw != .outOfOrder, .signalsInOrder, call, "\(what) behind a later one")
    arrived(signal.body, at: who, call)
  }

  // MARK: Refusals

  mutating func refused(
    _ who: Who, _ question: Asked, _ error: CallError
  ) throws(HistoryViolation) {
    let command = question.command
    try require(
      isExplained(error.code, command, who, asked: question.at), .noStrangeError,
      command.address?.call, "\(who) hears \(error) to \(command.kind)")
    try refusedByHook(command, error.code)
  }

  private func isExplained(
    _ code: CallError.Code, _ command: ClientCommand, _ who: Who, asked: Timestamp
  ) -> Bool {
    switch code {
    case .tryAgain, .overloaded, .draining, .rateLimited, .tooManySignals: return true
    case .refusedByApp, .unknownUser, .userUnavailable:
      if case .place = command { return hasHook }
      return false
    case .callIDTaken, .tooManyCalls, .tooManyLiveCalls:
      if case .place = command { return true }
      return false
    case .unknownCall:
      // A call that never came to be, or not before somebody asked who did not wait for that.
      guard let facts = command.address.flatMap({ calls[$0.call] }) else { return true }
      // An app that was started again does not know that a call of its user was to somebody else.
      // Nor does one whose user has handed its side over.
      if !facts.transfers.isEmpty { return true }
      if command.address?.callee.isEmpty == true, facts.wentOn(to: who.user) {
        return true
      }
      // Nor does a caller wait who was refused, and has placed it once more.
      let isEarly = facts.caller != who || facts.callerForgot || hasHook
      return facts.placedAt.map { asked <= $0 && isEarly } ?? true
    case .wrongState:
      return isTooLate(command, who, asked: asked)
    case .notParty:
      // The caller's own device rings on none of the caller's calls.
      guard let facts = command.address.flatMap({ calls[$0.call] }) else { return false }
      return facts.caller == who || !facts.transfers.isEmpty || command.isOfTransfer
    case .transferring, .tooManyMoves: return command.isOfTransfer
    default: return false
    }
  }

  /// Whether the device's part in the call explains that the command comes too late, or too early.
  private func isTooLate(_ command: ClientCommand, _ who: Who, asked: Timestamp) -> Bool {
    guard let address = command.address, let facts = calls[address.call] else { return false }
    guard knowsJournal else { return true }
    guard case .call(_, let verb) = command else { return false }
    switch verb {
    case .answer where facts.transferRang(who.user), .decline where facts.transferRang(who.user),
      .busy where facts.transferRang(who.user), .hangUp where facts.transferRang(who.user):
      return true
    // Where others of its user caused it that the call left them, it has only lost.
    case .answer:
      return facts.legEnds[facts.key(who)] != nil || facts.left(who.user)?.by.map(Who.init) == who
    case .decline, .busy: return facts.hadSide(who, ofCaller: false)
    case .hangUp: return facts.answered == nil || facts.caller != who
    case .connected: return facts.answered == nil
    case .pull:
      let isOtherSide = [true, false].contains { facts.hadSide(who, ofCaller: $0) }
      return isOtherSide || facts.answeredAt.map { asked <= $0 } ?? true
    case .transfer, .cancelTransfer: return true
    case .signal(.information, _) where facts.transferRang(who.user): return true
    case .signal(.information, _): return facts.answeredAt.map { asked <= $0 } ?? true
    default: return false
    }
  }
}

extension ClientCommand {
  var isOfTransfer: Bool {
    switch self {
    case .call(_, .transfer), .call(_, .cancelTransfer): true
    default: false
    }
  }

  package var kind: String {
    if case .call(_, let verb) = self { return verb.name }
    // The name of the case, without its values.
    return String("\(self)".prefix { $0 != "(" })
  }
}
