package import CallClient
package import CallCore
import CallJudge
import CallTestKit
import CallWire
import NIOCore

/// The pushes of a stage: what they do to devices that sleep, and when they are judged. On the rig's loop.
final class PushDesk {
  unowned let stage: Stage
  unowned let rig: LoadRig
  let sleep: SleepPlan
  var result = PushResult()
  var pushJudge: PushJudge
  /// Calls whose pushes are not judged yet.
  var quiet = CircularBuffer<(call: CallID, until: Timestamp)>()
  /// Devices that had the push for a call.
  private var pushed: [CallID: Set<Int>] = [:]
  /// Devices that wake when the call is over.
  private var lateWakes: [CallID: [Int]] = [:]
  private var httpRequests: UInt64 = 0

  init(_ stage: Stage, _ rig: LoadRig, _ sleep: SleepPlan) {
    self.stage = stage
    self.rig = rig
    self.sleep = sleep
    pushJudge = PushJudge { sleep.profile($0)?.takes }
    result.sleeping = sleep.sleepers.count
  }

  // MARK: A push arrives

  func arrived(_ push: APNsPush) {
    guard let index = sleep.device(token: push.token), let profile = sleep.profile(index) else {
      return rig.count("push: for no device of ours")
    }
    noteCleanUp(PushPurpose(ofPayload: push.payload), profile, in: &result.cleanUpsSent)
    let news: PushNews
    do {
      news = try PushReader(profile.dialect, sdkMajorVersion: profile.majorVersion)
        .read(push.payload)
    } catch {
      result.unreadable += 1
      return rig.count("push: \(error)")
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
    guard plan.callees.contains(index) else { return rig.count("push: for a call of others") }
    // The device knows a second copy by the call.
    guard pushed[invite.call, default: []].insert(index).inserted else { return }
    ChaosResult.record(arrived - plan.placeAt, in: &result.toProvider)
    // Too old to ring: the app reports it and ends it at once.
    if case .expired = invite.freshness(at: rig.loop.now) {
      result.expired += 1
      return
    }
    switch sleep.wake(index, for: plan) {
    case .never: result.neverWoken += 1
    case .afterTheCall: lateWakes[invite.call, default: []].append(index)
    case .after(let span):
      if sleep.actsByPush(index, in: plan), rig.devices[index].isAsleep {
        return act(index, plan, with: invite.capability, at: rig.loop.now + span + plan.act)
      }
      wake(index, for: invite.call, at: rig.loop.now + span)
    }
  }

  // MARK: Waking

  private func wake(_ index: Int, for call: CallID, at time: Timestamp) {
    stage.stay(until: time + .seconds(2))
    rig.loop.schedule(at: time) { [weak self] in self?.wakeNow(index, for: call) }
  }

  private func wakeNow(_ index: Int, for call: CallID) {
    let device = rig.devices[index]
    // Another call may have woken it meanwhile: it learns of this one like any device with a session.
    guard !rig.isInterrupted, device.isAsleep else { return }
    result.woken += 1
    stage.checker.woken(index, for: call)
    device.wake(for: call)
  }

  func wokenAttached(_ device: LoadDevice, _ call: CallID) {
    let now = rig.loop.now
    pushJudge.attached(call, device.index, at: now)
    if let plan = stage.plans[call] {
      ChaosResult.record(now - plan.placeAt, in: &result.toAttached)
    }
  }

  /// The call is judged: its devices sleep again, and those that missed it wake now.
  func callJudged(_ plan: CallPlan) {
    for callee in plan.callees { rig.devices[callee].fallAsleep() }
    pushed[plan.call] = nil
    quiet.append((plan.call, rig.loop.now + Self.quietSpan))
    for index in lateWakes.removeValue(forKey: plan.call) ?? [] {
      result.wokenLate += 1
      wake(index, for: plan.call, at: rig.loop.now + .milliseconds(100))
    }
  }

  // MARK: Without a session

  private func act(_ index: Int, _ plan: CallPlan, with capability: String?, at time: Timestamp) {
    guard let capability else { return rig.count("push: without a capability") }
    stage.live[plan.call]?.actsByPush.insert(index)
    stage.at(time, plan.call) { [weak self] live in self?.actNow(index, live, capability) }
  }

  private func actNow(_ index: Int, _ live: LiveCall, _ capability: String) {
    guard let actByPush = rig.actByPush, !live.isOver.contains(index) else { return }
    let plan = live.plan
    let address = CallAddress(
      callee: rig.roster.userName(rig.roster.user(of: index)), call: plan.call)
    let scope: DeclineScope = plan.kind == .declinedHere ? .here : .everywhere
    let isBusy = plan.kind == .busy
    // Beyond the numbers of any session's requests.
    httpRequests += 1
    let request = 1 << 34 + httpRequests
    result.actedByPush += 1
    let command = ClientCommand.call(address, isBusy ? .busy : .decline(scope))
    stage.checker.said(device: index, ClientFrame(id: request, command: command), at: rig.loop.now)
    actByPush(
      PushAction(
        callee: address.callee, call: plan.call, capability: capability,
        what: isBusy ? .busy : .decline(scope))
    ) { [weak self] in self?.acted(index, plan.call, request, $0) }
  }

  private func acted(
    _ index: Int, _ call: CallID, _ request: UInt64, _ result: Result<CallState, CallError>
  ) {
    let now = rig.loop.now
    switch result {
    case .success(let state):
      // A refusal that crossed somebody else's answer, or the end, has no effect.
      if let by = state.by, rig.roster.device(by) == index { pushJudge.acted(call, index) }
      stage.checker.told(device: index, .reply(id: request, .call(state)), at: now)
    case .failure(let error):
      stage.checker.told(device: index, .reply(id: request, .error(error)), at: now)
      stage.checker.refused(device: index, request: request, error.code, at: now)
      rig.count("by push: \(error.code.name)")
    }
    stage.live[call]?.isOver.insert(index)
    stage.finishIfSettled(call)
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

package struct PushAction: Sendable {
  package var callee: String
  package var call: CallID
  package var capability: String
  package var what: PushActions.Action
}
