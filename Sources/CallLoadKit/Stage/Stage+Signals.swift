import CallClient
import CallCore
import CallWire

/// Candidates: a few in some calls, as the scenario says, or a stream of them in both directions.
extension Stage {
  /// A side that talks sends an information instead of every so many candidates.
  private static let informationEvery = 3
  private static let streamGapMs: ClosedRange<Int64> = 20...120
  /// A device with this many commands without a reply pauses its streams: a client refuses 65.
  private static let waitingMax = 40
  /// A hang-up waits for both streams to arrive, this many times at most, for this long each time.
  static let hangUpDelaysMax = 120
  private static let hangUpDelay: Span = .milliseconds(250)

  func signalAfterPlacing(_ live: LiveCall) {
    let plan = live.plan
    if options.signals > 0 {
      after(.milliseconds(10), plan.call) { [unowned self] in stream(plan.caller, $0) }
    } else {
      sendCandidates(live, plan.caller, delaysMs: [10, 25])
    }
  }

  private func sendCandidates(_ live: LiveCall, _ device: Int, delaysMs: [Int64]) {
    guard live.plan.exchangesCandidates else { return }
    for delay in delaysMs {
      after(.milliseconds(delay), live.plan.call) { [unowned self] in candidate(device, $0) }
    }
  }

  /// A device rings. One that will answer begins to signal at once.
  func signalWhileRinging(_ live: LiveCall, _ device: Int) {
    let plan = live.plan
    let answers = device == plan.actor || plan.kind == .twoAnswer && device == plan.other
    if options.signals > 0, plan.streams, plan.script == nil, answers { stream(device, live) }
  }

  func signalAfterAnswer(_ live: LiveCall, _ device: Int, delaysMs: [Int64]) {
    guard live.talking.insert(device).inserted else { return }
    if options.signals > 0 {
      stream(device, live)
    } else {
      sendCandidates(live, device, delaysMs: delaysMs)
    }
  }

  /// Continues a device's stream, unless it has a timer already.
  private func stream(_ device: Int, _ live: LiveCall) {
    guard live.streaming.insert(device).inserted else { return }
    streamNext(device, live)
  }

  private func streamNext(_ device: Int, _ live: LiveCall) {
    let sent = live.candidatesSent[device] ?? 0
    let end = live.talking.contains(device) ? options.signals : options.signals / 2
    guard sent < end, !live.isOver.contains(device) else {
      live.streaming.remove(device)
      return
    }
    if devices[device].driver.machine.pendingCount < Self.waitingMax { candidate(device, live) }
    var random = SplitMix64(seed: live.plan.seed ^ UInt64(device) << 20 ^ UInt64(sent))
    let gap = Int64.random(in: Self.streamGapMs, using: &random)
    after(.milliseconds(gap), live.plan.call) { [unowned self] in streamNext(device, $0) }
  }

  /// One side's next signal, as long as it is in the call: a candidate, and after the answer now and then an
  /// information. Both are judged as one stream.
  private func candidate(_ device: Int, _ live: LiveCall) {
    // A signal that is on its way to a device that gives the call up is dropped, rightly.
    guard !live.isOver.contains(device), live.plan.streams else { return }
    let address = devices[device].address(live.plan.call)
    let next = NumberedCandidate(sender: device, number: (live.candidatesSent[device] ?? 0) + 1)
    let kind: SignalKind =
      live.talking.contains(device) && next.number.isMultiple(of: Self.informationEvery)
      ? .information : .candidate
    if devices[device].submit(.call(address, .signal(kind, body: next.body))) != nil {
      live.candidatesSent[device] = next.number
    }
  }

  /// One side hangs up, after the arrival of both streams where there are any.
  func hangUp(_ live: LiveCall, winner: Int?, delays: Int = 0) {
    let plan = live.plan
    live.isTalkOver = true
    guard let leaver = plan.hangUpByCaller ? plan.caller : live.puller ?? winner else { return }
    guard !live.isOver.contains(leaver), !live.hangingUp.contains(leaver) else { return }
    if options.signals > 0, plan.streams, delays < Self.hangUpDelaysMax,
      !haveStreamsArrived(live, winner)
    {
      return after(Self.hangUpDelay, plan.call) { [unowned self] in
        hangUp($0, winner: winner, delays: delays + 1)
      }
    }
    live.hangingUp.insert(leaver)
    devices[leaver].submit(.call(devices[leaver].address(plan.call), .hangUp))
  }

  private func haveStreamsArrived(_ live: LiveCall, _ winner: Int?) -> Bool {
    guard let winner else { return true }
    let caller = live.plan.caller
    return [caller, winner].allSatisfy { live.candidatesSent[$0] ?? 0 >= options.signals }
      && checker.haveAll(caller, winner, in: live.plan.call)
  }
}
