import CallClient
import CallCore
import CallLoadKit
import CallProcesses
import CallPush
import CallTestKit

/// A load run against the cluster in memory, in virtual time.
struct TwinRun {
  var fault: FaultyTwin.Fault?
  var scenario = Scenario.default
  var devices = 120
  var rate = 20.0
  var durationSeconds = 30.0
  var seed: UInt64 = 7
  /// Candidates of each side of every call; 0: what the scenario says.
  var signals = 0
  var sleep: SleepOptions?
  var readsHistories = false
  var isOneVersion = true
  var hasHook = false
  /// Gets what devices send and receive.
  var events: EventQueue?
  /// A third of the shards give no answer between two times, in seconds of the load. `isTold`: the judge is
  /// notified of the fault.
  var outage: (from: Double, to: Double, isTold: Bool)?

  struct Outcome {
    var result: RunResult
    var faultsPlayed: Int
    var progress: LoadProgress.Snapshot
  }

  /// Runs it to the end. nil: it did not end.
  func outcome() throws -> Outcome? {
    let loop = VirtualDeviceLoop()
    let twin = FaultyTwin(loop: loop, fault: fault, seed: seed)
    var options = LoadOptions(edges: ["ws://twin-1:1", "ws://twin-2:1"]) { user, device in
      FaultyTwin.token(user: user, device: device)
    }
    options.devices = devices
    options.scenario = scenario
    options.seed = seed
    options.signals = signals
    options.sleep = sleep
    options.readsHistories = readsHistories
    options.reportsWebhooks = true
    options.forwards = true
    options.isOneVersion = isOneVersion
    options.hasStrictApp = true
    options.hasHook = hasHook
    options.events = events
    if outage != nil {
      options.isDisturbed = true
      options.shardCount = 12
      options.settleSeconds = 75
    }
    twin.shardCount = 12
    let progress = LoadProgress()
    let fleet = DeviceFleet(
      options: options, progress: progress, loop: loop, network: twin, nonce: seed)
    let roster = fleet.roster
    twin.isStrict = { roster.user($0).map(roster.isStrict) ?? false }
    fleet.setGroup = { name, group, completion in
      loop.schedule(at: loop.now + .milliseconds(2)) {
        twin.groups[name] = group
        completion(nil)
      }
    }
    if sleep != nil { wakeByPushes(loop, twin, fleet) }
    var isConnected = false
    try fleet.connect { isConnected = true }
    guard loop.run(for: .seconds(60), until: { isConnected }) else { return nil }
    var result: RunResult?
    fleet.load(rate: rate, duration: durationSeconds) { result = $0 }
    if let outage { schedule(outage, loop, twin, fleet) }
    guard loop.run(for: .seconds(300), until: { result != nil }), var result else { return nil }
    result.lost(registrations: twin.registered.count)
    return Outcome(
      result: result, faultsPlayed: twin.faultsPlayed, progress: progress.snapshot)
  }

  /// The twin's pushes reach the fleet as the provider would hand them on.
  private func wakeByPushes(_ loop: VirtualDeviceLoop, _ twin: FaultyTwin, _ fleet: DeviceFleet) {
    let roster = fleet.roster
    let sleep = fleet.sleep
    twin.takes = { party in
      roster.device(party).flatMap { sleep?.profile($0)?.takes } ?? []
    }
    twin.onPush = { [weak fleet] job, number in
      let capability = "\(job.user.user) \(job.device.text)"
      let outcome = PayloadEncoder.encode(PushContent(job: job, capability: capability))
      guard case .payload(let payload) = outcome else { return }
      fleet?.pushArrived(
        APNsPush(
          id: "push \(number)", token: job.token.token, type: .voip, topic: job.token.topic,
          bundle: SleepPlan.bundle, payload: payload.bytes, expiration: 0, at: loop.now,
          connection: 1))
    }
    fleet.actByPush = { [weak twin] action, completion in
      let words = action.capability.split(separator: " ").map(String.init)
      let party = Party(user: words[0], device: DeviceID(words[1]))
      var scope: DeclineScope?
      if case .decline(let said) = action.what { scope = said }
      loop.schedule(at: loop.now + .milliseconds(2)) {
        guard let state = twin?.refuse(action.call, party, scope) else {
          return completion(.failure(CallError(.unknownCall)))
        }
        loop.schedule(at: loop.now + .milliseconds(2)) { completion(.success(state)) }
      }
    }
  }

  private func schedule(
    _ outage: (from: Double, to: Double, isTold: Bool), _ loop: VirtualDeviceLoop,
    _ twin: FaultyTwin, _ fleet: DeviceFleet
  ) {
    func after(_ seconds: Double, _ action: @escaping () -> Void) {
      loop.schedule(at: loop.now + Span(microseconds: Int64(seconds * 1_000_000)), action)
    }
    let shards = [1, 4, 7, 10]
    let fault = ChaosFault(
      id: 1, kind: .killCoordinator, node: "twin", role: .coordinator, shards: shards)
    after(outage.from) {
      if outage.isTold { fleet.note(.begins(fault)) }
      twin.silentShards = Set(shards)
      if outage.isTold { fleet.note(.happened(fault)) }
    }
    after(outage.to) {
      twin.speakAgain()
      if outage.isTold { fleet.note(.lifted(fault)) }
    }
  }
}
