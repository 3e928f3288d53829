internal import CallClient
internal import CallCore
internal import CallJudge
internal import CallWire

/// What an app hears through its client, and which refusals are explained.
extension HistoryChecker {
  mutating func told(_ who: Who, _ event: ClientEvent, _ now: Timestamp) throws(HistoryViolation) {
    switch event {
    case .call(let call, let event):
      heardOf(call, who)
      try appHears(who, call, event)
    case .gaveUp(_, let command):
      if case .call(_, .signal(_, let body)) = command { senders.gaveUp(body) }
      let calm = Span(microseconds: 30_000_000)
      let since = Timestamp(microseconds: now.microseconds - calm.microseconds)
      if calendar.calm(for: calm, from: since, now: now) != nil {
        throw HistoryViolation(
          .commandsAnswered, "\(who) gave a command up though nothing was wrong",
          call: command.address?.call)
      }
    case .replied(_, .place(let address, _), .error(let error)):
      if let facts = calls[address.call], facts.caller == who, !facts.accepted {
        calls[address.call]?.givenUp = error.code.asksForRetry
      }
    // It is not delivered, or later than its sender believes.
    case .replied(_, .call(_, .signal(_, let body)), .error): senders.gaveUp(body)
    case .attached, .detached, .notTrusted, .refused, .replied, .notice: break
    }
  }

  private mutating func appHears(
    _ who: Who, _ call: CallID, _ event: CallEvent
  ) throws(HistoryViolation) {
    var app = calls[call, default: Facts()].told[who, default: Told()].app
    func refuse(_ rule: HistoryRule, _ reason: String) throws(HistoryViolation) -> Never {
      throw HistoryViolation(rule, "the app of \(who): \(reason)", call: call)
    }
    if app.stopped {
      if case .invited = event { try refuse(.noInviteAfterStop, "is told to ring after the stop") }
      try refuse(.newsOnce, "hears more of the call after its end")
    }
    switch event {
    case .invited:
      if app.invited { try refuse(.newsOnce, "is told to ring twice") }
      app.invited = true
    case .ringing: break
    case .answered:
      if app.answered { try refuse(.newsOnce, "is told twice that somebody answered") }
      app.answered = true
    case .won:
      if app.won { try refuse(.newsOnce, "is told twice that it won") }
      app.won = true
    case .stopped(let stop):
      if app.won, !stop.reason.followsAnswer {
        try refuse(.winnerStopped, "won, and is told \(stop.reason.name)")
      }
      app.stopped = true
    case .signal(let signal): try appHears(who, call, signal, &app)
    }
    calls[call, default: Facts()].told[who, default: Told()].app = app
  }

  private mutating func appHears(
    _ who: Who, _ call: CallID, _ signal: Signal, _ app: inout App
  ) throws(HistoryViolation) {
    guard let (sender, number) = SignalText.read(signal.body), let facts = calls[call] else {
      return
    }
    func refuse(_ reason: String) throws(HistoryViolation) -> Never {
      throw HistoryViolation(.signalsInPlace, "the app of \(who): \(reason)", call: call)
    }
    if sender == facts.caller {
      guard who != sender else { try refuse("hears its own signal") }
    } else {
      guard who == facts.caller else { try refuse("hears a signal of another leg") }
      if let by = facts.answered.map({ Who($0.by) }), by != sender {
        try refuse("hears a signal of \(sender), which lost")
      }
    }
    let place = senders.place(of: signal.body)
    switch app.signals[sender, default: HeardSignals()]
      .receive(
        number, epoch: signal.index >> 20, place, judged: &judged[.signalsInOrder, default: 0])
    {
    case nil: break
    case .doubled: try refuse("hears signal \(number) of \(sender) twice")
    case .outOfOrder:
      throw HistoryViolation(
        .signalsInOrder, "the app of \(who) hears signal \(number) of \(sender) behind a later one",
        call: call)
    }
  }

  // MARK: Refusals

  /// Throws for an error that nothing explains.
  mutating func refused(
    _ who: Who, _ question: Asked, _ error: CallError
  ) throws(HistoryViolation) {
    let command = question.command
    let call = command.address?.call
    guard !isExplained(error.code, command, who, asked: question.at) else { return }
    throw HistoryViolation(.noStrangeError, "\(who) hears \(error) to \(command.kind)", call: call)
  }

  private func isExplained(
    _ code: CallError.Code, _ command: ClientCommand, _ who: Who, asked: Timestamp
  ) -> Bool {
    switch code {
    case .tryAgain, .overloaded, .draining, .rateLimited, .tooManySignals: return true
    case .callIDTaken, .tooManyCalls, .tooManyLiveCalls:
      if case .place = command { return true }
      return false
    case .unknownCall:
      // A call that never came to be, or not before somebody asked who did not wait for that.
      guard let facts = command.address.flatMap({ calls[$0.call] }) else { return true }
      return facts.placedAt.map { asked <= $0 && (facts.caller != who || facts.callerForgot) }
        ?? true
    case .wrongState:
      return isTooLate(command, who)
    case .notParty:
      // The caller's own device rings on none of the caller's calls.
      return command.address.map { calls[$0.call]?.caller == who } ?? false
    default: return false
    }
  }

  /// Whether the device's part in the call explains that the command comes too late, or too early.
  private func isTooLate(_ command: ClientCommand, _ who: Who) -> Bool {
    guard let address = command.address, let facts = calls[address.call] else { return false }
    guard case .call(_, let verb) = command else { return false }
    switch verb {
    case .answer: return facts.legEnds[who.device] != nil
    case .decline, .busy: return facts.answered.map { Who($0.by) } == who
    case .hangUp: return facts.answered == nil || facts.caller != who
    case .connected: return facts.answered == nil
    default: return false
    }
  }
}

/// Signals of the simulation name their sender and their number, so that what arrives can be judged.
package enum SignalText {
  package static func write(_ sender: Who, _ number: Int) -> String { "\(sender)#\(number)" }

  static func read(_ text: String) -> (Who, Int)? {
    let parts = text.split(separator: "#")
    guard parts.count == 2, let number = Int(parts[1]) else { return nil }
    let who = parts[0].split(separator: "/")
    guard who.count == 2, let who = Who(encoded: who[0], who[1]) else { return nil }
    return (who, number)
  }
}

extension ClientCommand {
  /// The command's name.
  package var kind: String {
    switch self {
    case .attach: "attach"
    case .detach: "detach"
    case .register: "register"
    case .unregister: "unregister"
    case .place: "place"
    case .ack: "ack"
    case .call(_, let verb): verb.name
    case .ping: "ping"
    case .calls: "calls"
    case .renew: "renew"
    }
  }
}
