internal import CallBus
internal import CallClient
internal import CallCore
internal import CallJudge
internal import CallWire

/// Frames, events and facts as words for the trace.
enum SimText {
  static func text(_ frame: ClientFrame, on line: SimLine) -> String {
    var what = frame.command.kind
    switch frame.command {
    case .ack(let items):
      what += " " + items.map { "v\(version($0.version))" }.joined(separator: " ")
    case .call(_, .signal(_, let body)): what += " \(body)"
    case .call(_, .decline(let scope)): what += " \(scope)"
    default: break
    }
    return "→ \(line.edge.name) #\(frame.id) \(what)"
  }

  static func text(_ frame: ServerFrame, on line: SimLine) -> String {
    switch frame {
    case .reply(let id, let reply): "← \(line.edge.name) #\(id) \(text(reply))"
    case .delivery(let delivery):
      "← \(line.edge.name) \(text(delivery.event)) v\(version(delivery.version))"
    case .notice(let notice): "← \(line.edge.name) notice \(notice.kind.name)"
    case .ongoing(let ongoing): "← \(line.edge.name) \(text(ongoing))"
    case .history(let history): "← \(line.edge.name) \(text(history))"
    case .relays: "← \(line.edge.name) relays"
    }
  }

  static func text(_ ongoing: OngoingCalls) -> String {
    "in calls \(text(ongoing.calls)) v\(version(ongoing.version))"
  }

  static func text(_ history: HistoryState) -> String {
    "history \(history.cursor.sequence), \(history.unread) unread"
  }

  static func text(_ calls: [OngoingCall]) -> String {
    "\(calls.map { "\($0.call) on \($0.device)" })"
  }

  static func text(_ reply: ServerReply) -> String {
    switch reply {
    case .error(let error): "error \(error.code.name)"
    case .done: "done"
    case .attached(let info):
      "attached" + (info.forCall.map { ", \(text($0))" } ?? "")
        + (info.ongoing.map { ", \(text($0))" } ?? "")
    case .registered(let info): "registered, removed \(info.removed)"
    case .call(let state): text(state)
    case .answer(let won, let state): (won ? "won, " : "not won, ") + text(state)
    case .rules(let rules): "rules: \(text(rules))"
    case .calls(let live): "placed \(live.placed.count), received \(live.received.count)"
    case .history(let page): "\(page.items.count) entries, \(text(page.state))"
    }
  }

  static func text(_ state: CallState) -> String {
    var words = state.phase.name
    if let reason = state.reason { words += " \(reason.name)" }
    if let by = state.by { words += " by \(Who(by))" }
    return words
  }

  static func text(_ rules: UserRules) -> String {
    func users(_ users: [String]) -> String { "\(users.map { Subjects.keyPart($0) })" }
    func forward(_ what: String, _ forward: UserRules.Forward?) -> String? {
      forward.map { "\(what) \(users($0.users))" }
    }
    var words = [
      forward("always", rules.always), forward("on busy", rules.onBusy),
      forward("on no answer", rules.onNoAnswer), forward("unreachable", rules.onUnreachable),
    ].compactMap(\.self)
    if let silence = rules.doNotDisturb { words.append("silent but for \(users(silence.except))") }
    if !rules.firstDevices.isEmpty { words.append("first \(rules.firstDevices)") }
    if !rules.name.isEmpty { words.append("named \(rules.name)") }
    return words.isEmpty ? "none" : words.joined(separator: ", ")
  }

  static func text(_ event: Delivery.Event) -> String {
    switch event {
    case .invite(let invite): "invite, \(invite.signals.count) signals"
    case .ringing(let by): "ringing by \(Who(by))"
    case .answered(let answered): "answered by \(Who(answered.by))"
    case .stop(let stop): "stop \(text(stop))"
    case .signal(let signal): "signal \(signal.body) (\(version(signal.index)))"
    case .moved(let moved): text(moved)
    case .transfer(let news): text(news)
    case .ringsUntil(let deadline): text(ringsUntil: deadline)
    }
  }

  private static func text(ringsUntil deadline: Timestamp) -> String {
    "rings until \(deadline.microseconds / 1000)"
  }

  static func text(_ stop: Stop) -> String {
    stop.reason.name + (stop.by.map { " by \(Who($0))" } ?? "")
  }

  private static func text(_ news: TransferNews) -> String {
    "transfer \(news.number) to \(news.to) \(news.reason?.name ?? "rings")"
      + (news.by.map { " by \(Who($0))" } ?? "")
  }

  private static func text(_ moved: Moved) -> String { "move \(moved.number) to \(Who(moved.to))" }

  static func text(_ event: ClientEvent) -> String {
    switch event {
    case .attached(_, let again): again ? "attached again" : "attached"
    case .detached: "detached"
    case .notTrusted(let problem): "not trusted: \(problem)"
    case .refused(let error): "refused: \(error)"
    case .replied(let id, let command, _): "#\(id) \(command.kind) answered"
    case .gaveUp(let id, let command): "#\(id) \(command.kind) given up"
    case .notice(let notice): "notice \(notice.kind.name)"
    case .ongoing(let calls): "the user is in calls \(text(calls))"
    case .history(let history): text(history)
    case .relays: "relays"
    case .call(_, let event):
      switch event {
      case .invited: "rings"
      case .ringing(let by): "ringing by \(Who(by))"
      case .answered(let answered): "answered by \(Who(answered.by))"
      case .won: "won"
      case .stopped(let stop): "stopped \(text(stop))"
      case .signal(let signal): "signal \(signal.body)"
      case .moved(let moved): text(moved)
      case .transfer(let news): text(news)
      case .ringsUntil(let deadline): text(ringsUntil: deadline)
      }
    }
  }

  static func text(_ change: JournalEntry.Change) -> String {
    switch change {
    case .placed(let facts):
      "placed by \(Who(facts.caller)) to \(facts.callee.user), legs \(facts.legs.map(\.device.text))"
    case .legJoined(let party): "\(Who(party)) joins"
    case .alerting(let device): "\(device) alerts"
    case .answered(let facts): "answered by \(Who(facts.by))"
    case .diverted(let facts):
      "goes from \(facts.from) to \(facts.to) (\(facts.reason.name))"
    case .moved(let move): "\(Who(move.to)) takes it over from \(Who(move.from))"
    case .transferEnded(let end): "transfer \(text(Stop(reason: end.reason, by: end.by)))"
    case .legEnded(let device, let end, _): "leg \(device): \(end)"
    case .connected(let caller): caller ? "caller connected" : "winner connected"
    case .ended(let facts): "ended \(text(Stop(reason: facts.reason, by: facts.by)))"
    case .signal(let fromCaller, let device, let signal):
      "signal \(signal.body) of \(fromCaller ? "caller" : device.text)"
    case .callerLost(let until): until == nil ? "caller back" : "caller lost"
    case .winnerLost(let until): until == nil ? "winner back" : "winner lost"
    case .settled: "settled"
    case .recorded: "recorded"
    case .pushed(let device, let purpose): "pushed \(device.text) \(purpose.name)"
    }
  }

  /// Versions and indices count from the epoch: `3.7` is the seventh of the third owner.
  static func version(_ version: UInt64) -> String { "\(version >> 20).\(version & 0xF_FFFF)" }
}

extension ClientEvent {
  var call: CallID? {
    switch self {
    case .call(let call, _): call
    case .replied(_, let command, _), .gaveUp(_, let command): command.address?.call
    case .attached, .detached, .notTrusted, .refused, .notice, .ongoing, .history, .relays: nil
    }
  }
}

extension ServerFrame {
  var call: CallID? {
    switch self {
    case .delivery(let delivery): delivery.call
    case .reply(_, .call(let state)), .reply(_, .answer(_, let state)): state.call
    case .reply(_, .attached(let info)): info.forCall?.call
    case .reply, .notice, .ongoing, .history, .relays: nil
    }
  }
}
