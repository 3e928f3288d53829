import CallClient
import CallCore
import CallJudge
import CallTestKit
import CallWire
import NIOCore

/// The pushes of a stage: how sleeping devices react to them, and when they are judged. On the fleet's loop.
final class PushReceiver {
  private unowned let stage: Stage
  private unowned let fleet: DeviceFleet
  private let sleep: SleepPlan
  private(set) var result = PushResult()
  private var pushJudge: PushJudge
  /// Calls whose pushes are not judged yet.
  private var quiet = CircularBuffer<(call: CallID, until: Timestamp)>()
  private var pushed: [CallID: Set<Int>] = [:]
  private var lateWakes: [CallID: [Int]] = [:]
  private var httpRequests: UInt64 = 0

  /// The last pushes of a call may arrive this long after it is judged.
  private static let quietSpan: Span = .seconds(6)

  init(_ stage: Stage, _ fleet: DeviceFleet, _ sleep: SleepPlan) {
    self.stage = stage
    self.fleet = fleet
    self.sleep = sleep
    pushJudge = PushJudge { sleep.profile($0)?.takes }
    result.sleeping = sleep.sleepers.count
  }

  // MARK: A push arrives

  func arrived(_ push: APNsPush) {
    guard let index = sleep.device(token: push.token), let profile = sleep.profile(index) else {
      return fleet.count("push: for no device of ours")
    }
    noteCleanUp(PushPurpose(ofPayload: push.payload), profile, in: &result.cleanUpsSent)
    let news: PushNews
    do {
      news = try PushReader(profile.dialect, sdkMajorVersion: profile.majorVersion)
        .read(push.payload)
    } catch {
      result.unreadable += 1
      return fleet.count("push: \(error)")
    }
    let purpose = news.purpose
    result.pushes[purpose, default: 0] += 1
    pushJudge.arrived(
      PushJudge.Arrival(
        device: index, purpose: purpose, id: push.id, at: push.at, sentAt: news.sentAt),
      for: news.call)
    noteCleanUp(purpose, profile, in: &result.cleanUpsRead)
    if case .invite(let invite) = news { rang(invite, index, at: push.at) }
  }

  private func noteCleanUp(
    _ purpose: PushPurpose?, _ profile: PushProfile, in counts: inout [String: Int]
  ) {
    guard let purpose, let capability = purpose.capability else { return }
    counts[profile.takes.contains(capability) ? purpose.name : "none", default: 0] += 1
  }

  private func rang(_ invite: PushInvite, _ index: Int, at arrived: Timestamp) {
    guard let plan = stage.plans[invite.call] else { return }
    guard plan.callees.contains(index) else { return fleet.count("push: for a call of others") }
    // The device recognises a second copy by its call.
    guard pushed[invite.call, default: []].insert(index).inserted else { return }
    result.toProvider.record(arrived - plan.placeAt)
    // Too old to ring: the app reports it and ends it at once.
    if case .expired = invite.freshness(at: fleet.loop.now, serverOffset: .seconds(0)) {
      result.expired += 1
      return
    }
    switch sleep.wake(index, for: plan) {
    case .never: result.neverWoken += 1
    case .afterTheCall: lateWakes[invite.call, default: []].append(index)
    case .after(let span):
      if sleep.actsByPush(index, in: plan), fleet.devices[index].isAsleep {
        return act(index, plan, with: invite.capability, at: fleet.loop.now + span + plan.act)
      }
      wake(index, for: invite.call, at: fleet.loop.now + span)
    }
  }

  // MARK: Waking

  private func wake(_ index: Int, for call: CallID, at time: Timestamp) {
    stage.stay(until: time + .seconds(2))
    fleet.loop.schedule(at: time) { [weak self] in self?.wakeNow(index, for: call) }
  }

  private func wakeNow(_ index: Int, for call: CallID) {
    let device = fleet.devices[index]
    // Another call may have woken it meanwhile: the cluster then notifies it as any device with a session.
    guard !fleet.isInterrupted, device.isAsleep else { return }
    result.woken += 1
    stage.checker.woken(index, for: call)
    device.wake(for: call)
  }

  func wokenAttached(_ device: LoadDevice, _ call: CallID) {
    let now = fleet.loop.now
    pushJudge.attached(call, device.index, at: now)
    if let plan = stage.plans[call] {
      result.toAttached.record(now - plan.placeAt)
    }
  }

  /// The call is judged: its devices sleep again, and those that missed it wake now.
  func callJudged(_ plan: CallPlan) {
    for callee in plan.callees { fleet.devices[callee].fallAsleep() }
    pushed[plan.call] = nil
    quiet.append((plan.call, fleet.loop.now + Self.quietSpan))
    for index in lateWakes.removeValue(forKey: plan.call) ?? [] {
      result.wokenLate += 1
      wake(index, for: plan.call, at: fleet.loop.now + .milliseconds(100))
    }
  }

  // MARK: Without a session

  private func act(_ index: Int, _ plan: CallPlan, with capability: String?, at time: Timestamp) {
    guard let capability else { return fleet.count("push: without a capability") }
    stage.live[plan.call]?.actsByPush.insert(index)
    stage.at(time, plan.call) { [weak self] live in self?.actNow(index, live, capability) }
  }

  private func actNow(_ index: Int, _ live: LiveCall, _ capability: String) {
    guard let actByPush = fleet.actByPush, !live.isOver.contains(index) else { return }
    let plan = live.plan
    let address = CallAddress(
      callee: fleet.roster.userName(fleet.roster.user(of: index)), call: plan.call)
    let scope: DeclineScope = plan.kind == .declinedHere ? .here : .everywhere
    let (verb, what): (CallVerb, PushActions.Action) =
      plan.kind == .busy ? (.busy, .busy) : (.decline(scope), .decline(scope))
    // Beyond the ids of any session's requests.
    httpRequests += 1
    let request = 1 << 34 + httpRequests
    result.actedByPush += 1
    let frame = ClientFrame(id: request, command: .call(address, verb))
    stage.checker.sent(device: index, frame, at: fleet.loop.now)
    fleet.tap?.acts(frame.command, in: plan.call, index)
    actByPush(
      PushAction(callee: address.callee, call: plan.call, capability: capability, what: what)
    ) { [weak self] in self?.acted(index, plan.call, request, $0) }
  }

  private func acted(
    _ index: Int, _ call: CallID, _ request: UInt64, _ result: Result<CallState, CallError>
  ) {
    let now = fleet.loop.now
    switch result {
    case .success(let state):
      // A refusal that crossed another device's answer, or the end, has no effect.
      if let by = state.by, fleet.roster.device(by) == index { pushJudge.acted(call, index) }
      stage.checker.received(device: index, .reply(id: request, .call(state)), at: now)
    case .failure(let error):
      stage.checker.received(device: index, .reply(id: request, .error(error)), at: now)
      stage.checker.refused(device: index, request: request, error.code, at: now)
      fleet.count("by push: \(error.code.name)")
    }
    stage.live[call]?.isOver.insert(index)
    stage.finishIfSettled(call)
  }

  // MARK: Judging

  func planned(_ plan: CallPlan) { pushJudge.planned(plan.call, at: plan.placeAt) }

  func delivered(_ device: LoadDevice, _ delivery: Delivery, at now: Timestamp) {
    if case .invite = delivery.event, device.sleeps {
      pushJudge.invited(delivery.call, device.index, decidedAt: delivery.at)
    }
    guard let plan = stage.plans[delivery.call] else { return }
    switch delivery.event {
    case .answered(let answered):
      pushJudge.over(delivery.call, decidedAt: delivery.at, learnedAt: now)
      if let winner = fleet.roster.device(answered.by) { pushJudge.won(delivery.call, winner) }
    case .stop:
      // A callee's device may have ended its own part alone.
      guard device.index == plan.caller else { return }
      pushJudge.over(delivery.call, decidedAt: delivery.at, learnedAt: now)
    case .invite, .ringing, .ringsUntil, .signal, .moved, .transfer: break
    }
  }

  func cancelled(_ call: CallID, _ device: LoadDevice) {
    guard stage.plans[call]?.caller == device.index else { return }
    pushJudge.over(call, decidedAt: nil, learnedAt: fleet.loop.now)
  }

  func judge(at now: Timestamp) {
    while let next = quiet.first, next.until <= now { judge(quiet.removeFirst().call) }
  }

  private func judge(_ call: CallID) {
    let (roster, timeline) = (fleet.roster, stage.checker.timeline)
    var faults = PushJudge.Faults()
    faults.disturbed = { device, begin, end in
      let shard = timeline.shard(ofDevice: device)
      return timeline.isDisturbed(shards: [shard], or: [device], from: begin, to: end)
    }
    // The queue may hand a job to a gateway that has just died; a server is away for seconds.
    faults.ringUncertain = { begin, end in
      func before(_ seconds: Int64) -> Timestamp { begin + .seconds(-seconds) }
      return timeline.began({ $0 == .killPush }, from: before(1), to: end)
        || timeline.began(\.isOfNATS, from: before(10), to: end)
    }
    let finding = pushJudge.judge(call, faults: faults) { roster.party($0).text }
    for (purpose, count) in finding.late { result.late[purpose, default: 0] += count }
    for violation in finding.violations { stage.checker.pushesBroke(violation, of: call) }
  }
}

extension PushPurpose {
  /// Reads Callmesh's own object in a payload, whatever dialect is beside it.
  fileprivate init?(ofPayload payload: [UInt8]) {
    guard let name = PayloadValue(json: payload)?["callmesh"]?["purpose"]?.text,
      let purpose = PushPurpose.allCases.first(where: { $0.name == name })
    else { return nil }
    self = purpose
  }
}
