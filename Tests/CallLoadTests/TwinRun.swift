import CallClient
import CallCore
import CallTestKit
import callload

/// A load run against the cluster in memory, in virtual time.
struct TwinRun {
  var fault: FaultyTwin.Fault?
  var scenario = Scenario.default
  var devices = 90
  var rate = 20.0
  var durationSeconds = 30.0
  var seed: UInt64 = 7
  /// From when to when, in seconds of the load, a third of the shards give no answer; and whether
  /// the judge knows.
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
    if outage != nil {
      options.isDisturbed = true
      options.shardCount = 12
      options.settleSeconds = 75
    }
    twin.shardCount = 12
    let progress = LoadProgress()
    let rig = LoadRig(
      options: options, progress: progress, loop: loop, network: twin, nonce: seed)
    var isConnected = false
    try rig.connect { isConnected = true }
    guard loop.run(for: .seconds(60), until: { isConnected }) else { return nil }
    var result: RunResult?
    rig.load(rate: rate, duration: durationSeconds) { result = $0 }
    if let outage { schedule(outage, loop, twin, rig) }
    guard loop.run(for: .seconds(300), until: { result != nil }), var result else { return nil }
    result.lost(registrations: twin.registered.count)
    return Outcome(
      result: result, faultsPlayed: twin.faultsPlayed, progress: progress.snapshot)
  }

  private func schedule(
    _ outage: (from: Double, to: Double, isTold: Bool), _ loop: VirtualDeviceLoop,
    _ twin: FaultyTwin, _ rig: LoadRig
  ) {
    func after(_ seconds: Double, _ action: @escaping () -> Void) {
      loop.schedule(at: loop.now + Span(microseconds: Int64(seconds * 1_000_000)), action)
    }
    let shards = [1, 4, 7, 10]
    let fault = Fault(
      id: 1, kind: .killCoordinator, node: "twin", role: .coordinator, shards: shards)
    after(outage.from) {
      if outage.isTold { rig.faultBegins(fault) }
      twin.silentShards = Set(shards)
      if outage.isTold { rig.faultHappened(fault) }
    }
    after(outage.to) {
      twin.speakAgain()
      if outage.isTold { rig.faultLifted(fault) }
    }
  }
}
