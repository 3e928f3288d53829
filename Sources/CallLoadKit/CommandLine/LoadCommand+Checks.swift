import CallClient
import CallHostile

/// Checks of options. All methods throw ``SetupError`` that names option, value and remedy.
extension LoadCommand {
  func check() throws {
    try need(
      (1...Roster.devicesPerUserMax).contains(load.devicesPerUser), "--devices-per-user",
      load.devicesPerUser, "a user has 1 to \(Roster.devicesPerUserMax) devices")
    try need(
      (0...100).contains(load.signals), "--signals", load.signals,
      "the cluster keeps 128 for one side; give at most 100")
    try need(
      load.devices >= 2 * load.devicesPerUser && load.devices <= 1_000_000, "--devices",
      load.devices,
      "give at least \(2 * load.devicesPerUser), so that there are two users "
        + "(of \(load.devicesPerUser) devices each), and at most 1,000,000")
    try need(
      load.rate.isFinite && load.rate > 0 && load.rate <= 100_000, "--rate", load.rate,
      "give calls per second, above 0 and at most 100,000")
    try need(load.duration.seconds <= 86_400, "--duration", load.duration, "give at most 24h")
    try need(load.stage.seconds >= 1, "--stage", load.stage, "give at least 1s")
    if let spread = load.reconnectSpread {
      try need(
        spread.seconds <= 600, "--reconnect-spread", spread, "give at most 10m")
    }
    if let idle = load.idle { try need(idle.seconds <= 3600, "--idle", idle, "give at most 1h") }
    for (option, value) in [
      ("--coordinators", local.coordinators ?? 1), ("--edges", local.edges ?? 1),
      ("--nodes", local.nodes ?? 1),
    ] {
      try need((1...64).contains(value), option, value, "give 1 to 64")
    }
    try need(
      [1, 3].contains(local.natsServers), "--nats-servers", local.natsServers,
      "give 1, or 3 that keep each record three times")
    if local.nearer, local.nodes == nil || !remote.edge.isEmpty {
      throw SetupError("--nearer: goes with --nodes only")
    }
    try need((1...4096).contains(local.shards), "--shards", local.shards, "give 1 to 4096")
  }

  /// Only one judge is notified of faults, and some of what is judged beside calls is known to one process only.
  func checkSlice() throws {
    guard load.slice.count > 1 else {
      return try need(load.meet == nil, "--meet", load.meet ?? "", "goes with --slice only")
    }
    for (option, isGiven) in [
      ("--chaos", !trouble.chaos.isEmpty), ("--find-max", load.findMax),
      ("--sleeping", judged.sleeping != nil), ("--webhooks", judged.webhooks),
      ("--history", judged.history), ("--hook", judged.hook), ("--ongoing", judged.ongoing),
      ("--hostile", !trouble.hostile.isEmpty), ("--apps 2", trouble.apps > 1),
      ("--check-growth", output.checkGrowth),
    ] {
      try need(
        !isGiven, "--slice", load.slice, "does not go with \(option); leave one of them out")
    }
    try need(load.seed != nil, "--slice", load.slice, "give all slices the same --seed")
    try need(
      load.meet != nil || !remote.edge.isEmpty, "--slice", load.slice,
      "give --edge, or a folder with --meet in which the first slice says where its cluster is")
  }

  func need(_ holds: Bool, _ option: String, _ value: Any, _ remedy: String) throws {
    if !holds { throw SetupError("\(option) \(value): \(remedy)") }
  }

  func trust() throws -> EdgeTrust {
    let isSecure = remote.edge.contains { (try? RunPlan.edgeURL($0))?.hasPrefix("wss://") == true }
    if local.tls, !remote.edge.isEmpty {
      throw SetupError("--tls: is for a local cluster; with --edge give wss:// and --ca")
    }
    if local.tls || isSecure, !trouble.hostile.isEmpty || trouble.apps > 1 {
      throw SetupError("--hostile: attackers speak no TLS; leave out --tls, or give ws:// edges")
    }
    guard let ca = remote.ca else { return .system }
    try need(isSecure, "--ca", ca, "goes with --edge wss://… only")
    do { return try EdgeTrust(caFile: ca) } catch { throw SetupError("--ca \(error)") }
  }

  func chaosPlan(_ scenario: Scenario) throws -> ChaosPlan? {
    guard !trouble.chaos.isEmpty else { return nil }
    let plan = try ChaosPlan(trouble.chaos)
    let text = trouble.chaos.joined(separator: ",")
    try need(
      judged.sleeping != nil || hasWebhooks(scenario) && local.nodes == nil
        || !text.contains(ChaosKind.killPush.rawValue),
      "--chaos", text,
      "only with --sleeping, or --webhooks without --nodes, there are push gateways; give both")
    try need(
      remote.edge.isEmpty, "--chaos", text, "only a local cluster is disturbed; leave --edge out")
    try need(!load.findMax, "--chaos", text, "does not go with --find-max; leave one of them out")
    try need(
      load.duration.seconds >= 5, "--duration", load.duration,
      "too short for --chaos; give at least 5s")
    return plan
  }

  /// nil where no device sleeps.
  func sleepOptions() throws -> SleepOptions? {
    guard let share = judged.sleeping, share.value > 0 else {
      try need(
        !judged.providerTrouble, "--provider-trouble", true, "no device sleeps; give --sleeping 40%"
      )
      return nil
    }
    try need(
      remote.edge.isEmpty, "--sleeping", share,
      "callload is the provider of a local cluster only; leave --edge out")
    try need(share.value <= 0.9, "--sleeping", share, "callers must be awake; give at most 90%")
    try need(
      (1...64).contains(judged.pushGateways), "--push-gateways", judged.pushGateways, "give 1 to 64"
    )
    var options = SleepOptions(share: share.value)
    options.isProviderTroubled = judged.providerTrouble
    return options
  }

  func checkApp() throws {
    for (option, isGiven) in [
      ("--webhooks", judged.webhooks), ("--history", judged.history), ("--ongoing", judged.ongoing),
      ("--hook", judged.hook),
    ] where isGiven {
      guard remote.edge.isEmpty else {
        throw SetupError(
          "\(option): is for the app of a local cluster, which callload makes; leave --edge out")
      }
      for (other, isGiven) in [
        ("--find-max", load.findMax), ("--hostile", !trouble.hostile.isEmpty),
        ("--apps", trouble.apps > 1),
      ] where isGiven {
        throw SetupError("\(option): does not go with \(other); leave one of them out")
      }
    }
    if judged.webhooks {
      try need(
        (1...64).contains(judged.pushGateways), "--push-gateways", judged.pushGateways,
        "give 1 to 64")
    }
  }

  /// nil without attacks.
  func hostilePlan() throws -> HostilePlan? {
    try need(
      (1...2).contains(trouble.apps), "--apps", trouble.apps,
      "give 1, or 2 of which the second is hostile")
    let words = trouble.hostile + (trouble.apps == 2 ? [Attack.appFlood.rawValue] : [])
    guard !words.isEmpty else { return nil }
    let plan = try HostilePlan(
      words, attackSeconds: load.duration.seconds, recoverySeconds: trouble.recovery.seconds)
    let others: [(option: String, isGiven: Bool)] = [
      ("--chaos", !trouble.chaos.isEmpty), ("--find-max", load.findMax),
      ("--sleeping", judged.sleeping != nil), ("--check-growth", output.checkGrowth),
    ]
    for other in others where other.isGiven {
      throw SetupError(
        "\(other.option): does not go with --hostile or --apps 2; leave one of them out")
    }
    guard load.duration.seconds <= 600, trouble.recovery.seconds <= 600 else {
      throw SetupError(
        "--duration \(load.duration), --recovery \(trouble.recovery): attacks are bounded; "
          + "give at most 10m")
    }
    return plan
  }
}
