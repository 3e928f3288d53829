internal import CallAuth
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import NIOCore

/// Questions to apps' hooks, before calls are placed.
///
/// A `place` that waits for its hook is in the outbox like any command that waits for its reply, so that the limits and
/// the time of commands hold for it. What the hook decides is in no fingerprint: where a `place` is repeated and gets
/// another decision, its shard keeps the first one that allowed it.
extension EdgeLoop {
  /// The hook that is to be asked about a command; nil nearly always.
  func hook(for command: Command) -> AppHook? {
    guard case .place = command.body else { return nil }
    return shared.hooks.hook(of: command.user.app)
  }

  /// Keeps a `place` until its app's hook has decided.
  func submit(_ command: Command, asking hook: AppHook, now: Timestamp) -> Submission {
    let submission = noted(outbox.submit(command, awaitsHook: true, now: now))
    guard case .sent = submission, case .place(let request) = command.body else {
      return submission
    }
    switch hook.admit(now: now) {
    case .decided(let decision): release(command, decision)
    case .ask(let permit, let settings):
      let question = HookQuestion(command, request, now: now)
      let (session, number) = (command.session.number, command.request)
      shared.hooks.client.post(
        settings.url, headers: question.headers(settings), body: question.body,
        within: settings.timeout, on: eventLoop
      ).assumeIsolated().whenSuccess { reply in
        let later = self.now
        let decision = hook.settled(permit, reply, since: now, now: later)
        self.decided(decision, session: session, request: number)
      }
    }
    return .sent
  }

  private func decided(_ decision: HookDecision, session: UInt64, request: UInt64) {
    // Otherwise it was given up meanwhile.
    guard let command = outbox.held(session: session, request: request) else { return }
    guard device(session) == nil else { return release(command, decision) }
    // A device that is gone got no reply, so it places its call again.
    guard let call = command.body.call else { return }
    metrics.commandsPending.add(Int64(-outbox.dropHeld(of: session, call: call)))
  }

  private func release(_ command: Command, _ decision: HookDecision) {
    let (session, request) = (command.session.number, command.request)
    // A drain that began meanwhile lets no new call in.
    switch shared.rules.isDraining ? .refuse(CallError(.draining)) : decision {
    case .refuse(let error): outbox.release(session: session, request: request, refusal: error)
    case .allow(let name, let forward):
      outbox.release(session: session, request: request) {
        guard case .place(var place) = $0.body else { return }
        if let name { place.callerName = name }
        place.forward = forward
        $0.body = .place(place)
      }
    }
    scheduleFlush()
  }

  /// Answers a `place` that a hook refused: with the call, where its shard has it, else with the refusal.
  func answer(
    _ pending: CommandOutbox.Pending, refusedWith refusal: CallError, _ reply: Reply, now: Timestamp
  ) {
    guard case .error(let error) = reply, error.code.rawValue < 500 else {
      return answer(pending, reply, now: now)
    }
    let command = pending.command
    device(command.session.number)?.handle(at: now) {
      $0.wasRefused(request: command.request, command.body, refusal, &$1)
    }
  }
}
