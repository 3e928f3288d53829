import CallClient
package import CallCore
import CallWire

/// A push as it reached the provider.
package struct ArrivedPush: Sendable {
  /// The same for every attempt.
  package var id: String
  package var token: String
  package var payload: [UInt8]
  package var at: Timestamp
  package init(id: String, token: String, payload: [UInt8], at: Timestamp) {
    self.id = id
    self.token = token
    self.payload = payload
    self.at = at
  }
}

/// Devices that sleep: what pushes do to them.
extension LoadRig {
  // MARK: Falling asleep

  /// The ramp is over: whoever sleeps lets go of its connection.
  func sendToSleep() {
    guard let sleep else { return }
    for index in sleep.sleepers where devices[index].setup == .connected {
      fallAsleep(devices[index])
    }
  }

  /// The system suspends the app: its connection is gone without a word, and nothing runs any more.
  /// Not while it has a call.
  func fallAsleep(_ device: LoadDevice) {
    guard sleep?.sleeps(device.index) == true, !device.isAsleep, device.calls.isEmpty else {
      return
    }
    device.isAsleep = true
    device.wokenFor = nil
    connectionGone(device)
    device.driver.suspend()
  }

  /// Whether a callee's device can be called: it is attached, or a push can wake it.
  func isCallable(_ device: Int) -> Bool {
    devices[device].isAttached || devices[device].isAsleep
  }

  /// How a device that sleeps registers; nil: it never sleeps.
  func registration(_ index: Int) -> RegistrationRequest? {
    guard let sleep, let profile = sleep.profile(index) else { return nil }
    return RegistrationRequest(
      deviceName: "Device \(index)", voipToken: sleep.voipToken(index),
      alertToken: sleep.alertToken(index), dialect: profile.dialect.rawValue,
      sdkName: profile.sdkName, sdkVersion: profile.sdkVersion, capabilities: profile.said)
  }

  // MARK: A push arrives

  package func pushArrived(_ push: ArrivedPush) {
    guard let stage, let sleep else { return }
    guard let index = sleep.device(token: push.token), let profile = sleep.profile(index) else {
      return count("push: for no device of ours")
    }
    noteCleanUp(PushPurpose(ofPayload: push.payload), profile, in: &stage.pushes.cleanUpsSent)
    let news: PushNews
    do {
      news = try PushReader(profile.dialect, sdkMajorVersion: profile.majorVersion)
        .read(push.payload)
    } catch {
      stage.pushes.unreadable += 1
      return count("push: \(error)")
    }
    let purpose = news.purpose
    stage.pushes.pushes[purpose, default: 0] += 1
    stage.pushJudge.arrived(
      PushJudge.Arrival(
        device: index, purpose: purpose, id: push.id, at: push.at, sentAt: news.sentAt),
      for: news.call)
    noteCleanUp(purpose, profile, in: &stage.pushes.cleanUpsRead)
    if case .invite(let invite) = news { rang(invite, index, at: push.at) }
  }

  private func noteCleanUp(
    _ purpose: PushPurpose?, _ profile: PushProfile, in counts: inout [String: Int]
  ) {
    guard let purpose, let capability = purpose.capability else { return }
    counts[profile.takes.contains(capability) ? purpose.name : "none", default: 0] += 1
  }

  private func rang(_ invite: PushInvite, _ index: Int, at arrived: Timestamp) {
    guard let stage, let sleep, let plan = stage.expectations[invite.call] else { return }
    guard plan.callees.contains(index) else { return count("push: for a call of others") }
    // The device knows a second copy by the call.
    guard stage.pushed[invite.call, default: []].insert(index).inserted else { return }
    ChaosResult.record(arrived - plan.placeAt, in: &stage.pushes.toProvider)
    // Too old to ring: the app reports it and ends it at once.
    if case .expired = invite.freshness(at: loop.now) {
      stage.pushes.expired += 1
      return
    }
    switch sleep.wake(index, for: plan) {
    case .never: stage.pushes.neverWoken += 1
    case .afterTheCall: stage.lateWakes[invite.call, default: []].append(index)
    case .after(let span):
      if sleep.actsByPush(index, in: plan), devices[index].isAsleep {
        return act(index, plan, with: invite.capability, at: loop.now + span + plan.act)
      }
      wake(index, for: invite.call, at: loop.now + span)
    }
  }

  // MARK: Waking

  private func wake(_ index: Int, for call: CallID, at time: Timestamp) {
    stay(until: time + .seconds(2))
    loop.schedule(at: time) { [weak self] in self?.wakeNow(index, for: call) }
  }

  private func wakeNow(_ index: Int, for call: CallID) {
    let device = devices[index]
    guard let stage, !isInterrupted else { return }
    // Another call woke it meanwhile; it is told of this one like any device with a session.
    guard device.isAsleep else { return }
    device.isAsleep = false
    device.wokenFor = call
    stage.pushes.woken += 1
    stage.checker.woken(index, for: call)
    device.driver.woken(for: call)
  }

  /// A device that a push woke has a session.
  func wokenAttached(_ device: LoadDevice) {
    guard let call = device.wokenFor else { return }
    let now = loop.now
    device.wokenFor = nil
    stage?.pushJudge.attached(call, device.index, at: now)
    if let stage, let plan = stage.expectations[call] {
      ChaosResult.record(now - plan.placeAt, in: &stage.pushes.toAttached)
    }
    guard stage?.live[call] == nil else { return }
    // It came too late, was told so, and nothing keeps it awake.
    loop.schedule(at: now + .milliseconds(500)) { [weak self] in self?.fallAsleep(device) }
  }

  /// The call is judged: its devices sleep again, and those that missed it all wake now.
  func callForgotten(_ plan: CallPlan) {
    guard let stage, sleep != nil else { return }
    for callee in plan.callees { fallAsleep(devices[callee]) }
    stage.pushed[plan.call] = nil
    stage.pushQuiet.append((plan.call, loop.now + Self.pushQuietSpan))
    for index in stage.lateWakes.removeValue(forKey: plan.call) ?? [] {
      stage.pushes.wokenLate += 1
      wake(index, for: plan.call, at: loop.now + .milliseconds(100))
    }
  }

  /// The stage does not end before.
  private func stay(until time: Timestamp) {
    guard let stage else { return }
    stage.wakesUntil = max(stage.wakesUntil, time)
  }

  // MARK: Without a session

  private func act(_ index: Int, _ plan: CallPlan, with capability: String?, at time: Timestamp) {
    guard let capability else { return count("push: without a capability") }
    stage?.live[plan.call]?.actsByPush.insert(index)
    at(time, plan.call) { [weak self] live in self?.actNow(index, live, capability) }
  }

  private func actNow(_ index: Int, _ live: LiveCall, _ capability: String) {
    guard let stage, let actByPush, !live.isOver.contains(index) else { return }
    let plan = live.plan
    let address = CallAddress(
      callee: roster.userName(roster.user(of: index)), call: plan.call)
    let action: PushAction.What
    let command: ClientCommand
    if plan.kind == .busy {
      (action, command) = (.busy, .call(address, .busy))
    } else {
      let scope: DeclineScope = plan.kind == .declinedHere ? .here : .everywhere
      (action, command) = (.decline(scope), .call(address, .decline(scope)))
    }
    // Beyond the numbers of any session's requests.
    httpRequests += 1
    let request = 1 << 34 + httpRequests
    stage.pushes.actedByPush += 1
    stage.checker.said(
      device: index, ClientFrame(id: request, command: command), at: loop.now)
    actByPush(
      PushAction(
        callee: address.callee, call: plan.call, capability: capability, what: action)
    ) { [weak self] result in self?.acted(index, plan.call, request, result) }
  }

  private func acted(
    _ index: Int, _ call: CallID, _ request: UInt64, _ result: Result<CallState, CallError>
  ) {
    guard let stage else { return }
    let now = loop.now
    switch result {
    case .success(let state):
      // A refusal that crossed somebody else's answer, or the end, has no effect.
      if let by = state.by, roster.device(by) == index { stage.pushJudge.acted(call, index) }
      stage.checker.told(device: index, .reply(id: request, .call(state)), at: now)
    case .failure(let error):
      stage.checker.told(device: index, .reply(id: request, .error(error)), at: now)
      stage.checker.refused(device: index, request: request, error.code, at: now)
      count("by push: \(error.code.name)")
    }
    stage.live[call]?.isOver.insert(index)
    finishIfSettled(call)
  }
}

extension PushPurpose {
  /// As our own object in a payload says, whatever the dialect beside it.
  fileprivate init?(ofPayload payload: [UInt8]) {
    guard let name = PayloadValue(json: payload)?["callmesh"]?["purpose"]?.text,
      let purpose = PushPurpose.allCases.first(where: { $0.name == name })
    else { return nil }
    self = purpose
  }
}

/// What a device does without a session, and with what.
package struct PushAction: Sendable {
  package enum What: Sendable, Equatable {
    case decline(DeclineScope)
    case busy
  }
  package var callee: String
  package var call: CallID
  package var capability: String
  package var what: What
}
