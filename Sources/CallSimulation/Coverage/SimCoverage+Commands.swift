internal import CallCore
internal import CallJudge
internal import CallWire

/// Races of commands that arrive at a coordinator.
extension SimCoverage {
  func arrived(_ command: Command) {
    let who = Who(command.user.user, command.device.text)
    switch command.body {
    case .register: attachedOrRegistered(who)
    case .attach(let attach) where !attach.announce: attachedOrRegistered(who)
    default: break
    }
    guard let call = command.body.call, let seen = calls[call] else { return }
    guard case .call(_, let verb) = command.body else { return }
    let now = world.now
    switch verb {
    case .answer:
      if !seen.isEnded,
        seen.answers.contains(where: { $0.who != who && near($0.at, now, milliseconds: 2) })
      {
        race("R1", call)
      }
      if let at = seen.cancelAt, near(at, now, milliseconds: 20) { race("R2", call) }
      if near(seen.deadline, now, milliseconds: 25) { race("R2 timeout", call) }
      calls[call]?.answers.append((now, who))
    case .cancel:
      if seen.answers.contains(where: { near($0.at, now, milliseconds: 20) }) { race("R2", call) }
      calls[call]?.cancelAt = now
    case .decline, .busy:
      if let by = seen.answeredBy, Who(by) != who { race("R7", call) }
    case .hangUp:
      guard !seen.isEnded else { break }
      if seen.hangUps.contains(where: { $0.who != who && near($0.at, now, milliseconds: 50) }) {
        race("R16", call)
      }
      if !seen.isConnected, let at = seen.connectDeadline, near(at, now, milliseconds: 50) {
        race("R16", call)
      }
      calls[call]?.hangUps.append((now, who))
    case .pull:
      if !seen.isEnded,
        seen.pulls.contains(where: { $0.who != who && near($0.at, now, milliseconds: 50) })
      {
        race("R24 two at once", call)
      }
      calls[call]?.pulls.append((now, who))
    case .signal(let kind, _): signalled(call, seen, who, kind)
    default: break
    }
  }

  private func signalled(_ call: CallID, _ seen: Seen, _ who: Who, _ kind: SignalKind) {
    if kind == .information {
      world.count(
        seen.answeredBy == nil ? "signal.information too early" : "signal.information")
    }
    if seen.isEnded {
      race("R17 after the end", call)
    } else if let by = seen.answeredBy {
      if Who(by) != who, Who(seen.caller) != who { race("R17 of a loser", call) }
    } else {
      race("R17 early", call)
    }
  }

  private func attachedOrRegistered(_ who: Who) {
    for (call, seen) in calls where seen.isRinging && seen.invited.contains(who) {
      race("R6", call)
    }
  }
}
