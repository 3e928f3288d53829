import CallClient
import CallCore
import CallJudge
package import CallProcesses
package import CallTestKit
import CallWire
import Synchronization

/// The provider of a local cluster: a strict APNs with both of its environments, and the files that configure it in the
/// gateways.
package struct LocalPushProvider: Sendable {
  package static let providersFile = "push-providers.json"

  package let simulator: APNsSimulator
  private let sandbox: APNsSimulator
  private let state: State

  private final class State: Sendable {
    let engine = Mutex<LoadEngine?>(nil)
    let reported = Mutex((responses: [String: Int](), refused: 0, violations: 0))
  }

  /// - Throws: what the simulator throws where it cannot listen; ``SetupError`` where a file cannot be written.
  package static func start(
    _ sleepers: SleepPlan, _ roster: Roster, in folder: TemporaryFolder
  ) async throws -> LocalPushProvider {
    let state = State()
    // A clean-up may overtake its ring, and a fault may leave it without one: the judge considers both.
    let devices = APNsDevices(endsNeedCalls: false)
    var options = APNsSimulatorOptions(bundles: [SleepPlan.bundle])
    options.devices = devices
    options.onPush = { push in state.engine.withLock { $0 }?.arrived(push) }
    if sleepers.options.isProviderTroubled {
      options.script = trouble(sleepers: sleepers.sleepers.count)
    }
    let simulator = try await APNsSimulator.start(options)
    options.environment = .development
    let sandbox = try await APNsSimulator.start(options)
    for device in sleepers.sleepers {
      register(
        device, sleepers, sleepers.isOfSandbox(device) ? sandbox : simulator, devices, roster)
    }
    let entries = [
      try entry(SleepPlan.environment, simulator, folder), try entry("sandbox", sandbox, folder),
    ]
    let providers: JSONObject = ["apns": entries]
    try folder.write(String(decoding: providers.encoded(), as: UTF8.self), to: providersFile)
    return LocalPushProvider(simulator: simulator, sandbox: sandbox, state: state)
  }

  /// One push in five is refused for the moment. In a wave the provider does not know tokens that it has accepted before.
  /// The wave begins with the second push to such a token, so that a short run meets it, too.
  private static func trouble(sleepers: Int) -> APNsScript {
    APNsScript([
      .init(
        .answer(.badDeviceToken), from: 2, times: max(5, sleepers / 4),
        onlyAccepted: true),
      .init(.answer(.internalServerError), share: 0.08),
      .init(.answer(.serviceUnavailable), share: 0.08),
      .init(.answer(.tooManyRequests), share: 0.04), .init(.shape(.retryAfterAnHour), share: 0.5),
    ])
  }

  package func attach(_ engine: LoadEngine) { state.engine.withLock { $0 = engine } }

  package func stop() async {
    await simulator.stop()
    await sandbox.stop()
  }

  private static func register(
    _ device: Int, _ plan: SleepPlan, _ simulator: APNsSimulator, _ devices: APNsDevices,
    _ roster: Roster
  ) {
    guard let profile = plan.profile(device), let voip = plan.voipToken(device) else { return }
    let name = roster.party(device).text
    simulator.register(voip.token, topic: voip.topic, device: name)
    if let alert = plan.alertToken(device) {
      simulator.register(alert.token, topic: alert.topic, device: name)
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

  /// Makes an environment's entry of the gateways' file, and writes its key beside that.
  private static func entry(
    _ environment: String, _ simulator: APNsSimulator, _ folder: TemporaryFolder
  ) throws -> JSONObject {
    let (keyFile, authorityFile) = ("push-\(environment).p8", "push-\(environment).pem")
    try folder.write(simulator.key.privateKeyPEM, to: keyFile)
    try folder.write(simulator.authorityPEM, to: authorityFile)
    return [
      "name": "callload-\(environment)", "team": simulator.key.team, "key": simulator.key.id,
      "keyFile": folder.file(keyFile), "environment": environment,
      "topics": [SleepPlan.bundle], "endpoint": "127.0.0.1:\(simulator.port)",
      "caFile": folder.file(authorityFile),
    ]
  }

  /// Adds the provider's counts of a stage to its result.
  package func report(into result: inout RunResult) {
    let (report, other) = (simulator.report, sandbox.report)
    let responses = report.responses.merging(other.responses, uniquingKeysWith: +)
    let total = report.violationsTotal + other.violationsTotal
    let refused = report.goodTokensRefused + other.goodTokensRefused
    let (violations, answers, refusals) = state.reported.withLock { before in
      let fresh = total - before.violations
      let answers = responses.merging(before.responses) { $0 - $1 }.filter { $0.value > 0 }
      let refusals = refused - before.refused
      before = (responses, refused, total)
      return (fresh, answers, refusals)
    }
    result.pushes?.answers = answers
    result.pushes?.goodTokensRefused = refusals
    guard violations > 0 else { return }
    result.correctness[.pushContract, default: 0] += violations
    result.examples[.pushContract, default: []] += (report.remarks + other.remarks).prefix(3)
  }
}
