import CallClient
import CallCore
import CallWire

/// Candidates: a few in some calls, as the scenario has it, or a stream of them in both directions.
extension Stage {
  /// Between two candidates of a stream.
  private static let streamGapMs: ClosedRange<Int64> = 20...120
  /// Commands of one device that wait for replies, beyond which its streams pause: a client refuses 65.
  private static let waitingMax = 40
  /// How often a hang-up is put off until both streams have arrived, and for how long each time.
  static let hangUpDelaysMax = 120
  private static let hangUpDelay: Span = .milliseconds(250)

  func signalAfterPlacing(_ live: LiveCall) {
    let plan = live.plan
    if options.signals > 0 {
      after(.milliseconds(10), plan.call) { [unowned self] in stream(plan.caller, $0) }
    } else if plan.exchangesCandidates {
      for milliseconds in [10, 25] as [Int64] {
        after(.milliseconds(milliseconds), plan.call) { [unowned self] in candidate(plan.caller, $0)
        }
      }
    }
  }

  /// A device rings. Those that will answer begin to signal at once.
  func signalWhileRinging(_ live: LiveCall, _ device: Int) {
    let plan = live.plan
    let answers = device == plan.actor || plan.kind == .twoAnswer && device == plan.other
    if options.signals > 0, answers { stream(device, live) }
  }

  func signalAfterAnswer(_ live: LiveCall, _ device: Int, delaysMs: [Int64]) {
    guard live.talking.insert(device).inserted else { return }
    if options.signals > 0 {
      stream(device, live)
    } else if live.plan.exchangesCandidates {
      for milliseconds in delaysMs {
        after(.milliseconds(milliseconds), live.plan.call) { [unowned self] in candidate(device, $0)
        }
      }
    }
  }

  /// Goes on with a device's stream, unless a timer does already.
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

  /// One side's next candidate, as long as it is in the call.
  private func candidate(_ device: Int, _ live: LiveCall) {
    guard !live.isOver.contains(device) else { return }
    let address = devices[device].address(live.plan.call)
    let next = NumberedCandidate(sender: device, number: (live.candidatesSent[device] ?? 0) + 1)
    if devices[device].say(.call(address, .signal(.candidate, body: next.body))) != nil {
      live.candidatesSent[device] = next.number
    }
  }

  // MARK: Hanging up

  /// One side hangs up; where streams are sent not before both have arrived, if they do at all.
  func hangUp(_ live: LiveCall, winner: Int?, delays: Int = 0) {
    let plan = live.plan
    guard let leaver = plan.hangUpByCaller ? plan.caller : winner else { return }
    guard !live.isOver.contains(leaver) else { return }
    if options.signals > 0, delays < Self.hangUpDelaysMax, !haveStreamsArrived(live, winner) {
      return after(Self.hangUpDelay, plan.call) { [unowned self] in
        hangUp($0, winner: winner, delays: delays + 1)
      }
    }
    devices[leaver].say(.call(devices[leaver].address(plan.call), .hangUp))
  }

  private func haveStreamsArrived(_ live: LiveCall, _ winner: Int?) -> Bool {
    guard let winner else { return true }
    let caller = live.plan.caller
    return [caller, winner].allSatisfy { live.candidatesSent[$0] ?? 0 >= options.signals }
      && checker.haveAll(caller, winner, in: live.plan.call)
  }
}
