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
    let progress = LoadProgress()
    let rig = LoadRig(
      options: options, progress: progress, loop: loop, network: twin, nonce: seed)
    var isConnected = false
    try rig.connect { isConnected = true }
    guard loop.run(for: .seconds(60), until: { isConnected }) else { return nil }
    var result: RunResult?
    rig.load(rate: rate, duration: durationSeconds) { result = $0 }
    guard loop.run(for: .seconds(300), until: { result != nil }), let result else { return nil }
    return Outcome(
      result: result, faultsPlayed: twin.faultsPlayed, progress: progress.snapshot)
  }
}
