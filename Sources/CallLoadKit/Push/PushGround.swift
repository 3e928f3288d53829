import CallClient
import CallCore
import CallJudge
package import CallTestKit
import CallWire
import Synchronization

/// The provider of a local cluster: a strict APNs, and the files that configure it in the gateways.
package struct PushGround: Sendable {
  package static let providersFile = "push-providers.json"
  private static let keyFile = "push-key.p8"
  private static let authorityFile = "push-authority.pem"

  package let simulator: APNsSimulator
  private let state: State

  private final class State: Sendable {
    let engine = Mutex<LoadEngine?>(nil)
    let reported = Mutex((responses: [String: Int](), violations: 0))
  }

  /// - Throws: what the simulator throws where it cannot listen; ``SetupError`` where a file cannot be written.
  package static func start(
    _ sleepers: SleepPlan, _ roster: Roster, in folder: TemporaryFolder
  ) async throws -> PushGround {
    let state = State()
    // A clean-up may overtake its ring, and a fault may leave it without one: the judge considers both.
    let devices = APNsDevices(endsNeedCalls: false)
    var options = APNsSimulatorOptions(bundles: [SleepPlan.bundle])
    options.devices = devices
    options.onPush = { push in state.engine.withLock { $0 }?.arrived(push) }
    let simulator = try await APNsSimulator.start(options)
    for device in sleepers.sleepers { register(device, sleepers, simulator, devices, roster) }
    try folder.write(simulator.key.privateKeyPEM, to: keyFile)
    try folder.write(simulator.authorityPEM, to: authorityFile)
    try folder.write(
      String(decoding: providers(simulator, folder).encoded(), as: UTF8.self), to: providersFile)
    return PushGround(simulator: simulator, state: state)
  }

  package func attach(_ engine: LoadEngine) { state.engine.withLock { $0 = engine } }

  package func stop() async { await simulator.stop() }

  private static func register(
    _ device: Int, _ plan: SleepPlan, _ simulator: APNsSimulator, _ devices: APNsDevices,
    _ roster: Roster
  ) {
    guard let profile = plan.profile(device), let voip = plan.voipToken(device) else { return }
    let name = roster.party(device).text
    simulator.register(voip.token, topic: voip.topic, environment: .production, device: name)
    if let alert = plan.alertToken(device) {
      simulator.register(alert.token, topic: alert.topic, environment: .production, device: name)
    }
    let reader = PushReader(profile.dialect, sdkMajorVersion: profile.majorVersion)
    let takes = [PushPurpose.missed, .answeredElsewhere, .cancel].filter {
      $0.capability.map(profile.takes.contains) ?? false
    }
    devices.register(
      voip.token,
      APNsDevices.Device(takes: Set(takes.map(\.name))) { push in
        switch try? reader.read(push.payload) {
        case .invite(let invite): .call(id: invite.call.description)
        case .stop(let stop): .end(id: stop.call.description, kind: stop.purpose.name)
        case .missed, nil: .unreadable
        }
      })
  }

  private static func providers(
    _ simulator: APNsSimulator, _ folder: TemporaryFolder
  ) -> JSONObject {
    let provider: JSONObject = [
      "name": "callload", "team": simulator.key.team, "key": simulator.key.id,
      "keyFile": folder.file(keyFile), "environment": SleepPlan.environment,
      "topics": [SleepPlan.bundle], "endpoint": "127.0.0.1:\(simulator.port)",
      "caFile": folder.file(authorityFile),
    ]
    return ["apns": [provider]]
  }

  /// Adds the provider's counts of a stage to its result.
  package func report(into result: inout RunResult) {
    let report = simulator.report
    let (violations, answers) = state.reported.withLock { before in
      let fresh = report.violationsTotal - before.violations
      let answers = report.responses.merging(before.responses) { $0 - $1 }.filter { $0.value > 0 }
      before = (report.responses, report.violationsTotal)
      return (fresh, answers)
    }
    result.pushes?.answers = answers
    guard violations > 0 else { return }
    result.correctness[.pushContract, default: 0] += violations
    result.examples[.pushContract, default: []] += report.remarks.prefix(3)
  }
}
