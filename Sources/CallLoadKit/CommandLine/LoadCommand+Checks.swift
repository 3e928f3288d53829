import CallClient
import CallHostile

/// Checks of options. All methods throw ``SetupError`` that names option, value and remedy.
extension LoadCommand {
  func check() throws {
    try need(
      (1...Roster.devicesPerUserMax).contains(devicesPerUser), "--devices-per-user",
      devicesPerUser, "a user has 1 to \(Roster.devicesPerUserMax) devices")
    try need(
      (0...100).contains(signals), "--signals", signals,
      "the cluster keeps 128 for one side; give at most 100")
    try need(
      devices >= 2 * devicesPerUser && devices <= 1_000_000, "--devices", devices,
      "give at least \(2 * devicesPerUser), so that there are two users "
        + "(of \(devicesPerUser) devices each), and at most 1,000,000")
    try need(
      (1...90 * 86_400).contains(tokenLifetime.seconds), "--token-lifetime",
      "\(tokenLifetime.seconds)s", "give 1s to 2160h, and not more than the edges' maxTokenAge")
    try need(
      rate.isFinite && rate > 0 && rate <= 100_000, "--rate", rate,
      "give calls per second, above 0 and at most 100,000")
    try need(duration.seconds <= 86_400, "--duration", duration, "give at most 24h")
    try need(stage.seconds >= 1, "--stage", stage, "give at least 1s")
    if let reconnectSpread {
      try need(
        reconnectSpread.seconds <= 600, "--reconnect-spread", reconnectSpread, "give at most 10m")
    }
    if let idle { try need(idle.seconds <= 3600, "--idle", idle, "give at most 1h") }
    if let plot {
      try need(hostile.isEmpty && apps == 1, "--plot", plot, "does not go with --hostile")
      try need(!findMax, "--plot", plot, "does not go with --find-max; leave one of them out")
    }
    if let ramp = ramp {
      try need(ramp.isFinite && ramp > 0, "--ramp", ramp, "give connections per second, above 0")
    }
    for (option, value) in [
      ("--coordinators", coordinators ?? 1), ("--edges", edges ?? 1), ("--nodes", nodes ?? 1),
    ] {
      try need((1...64).contains(value), option, value, "give 1 to 64")
    }
    try need(
      [1, 3].contains(natsServers), "--nats-servers", natsServers,
      "give 1, or 3 that keep each record three times")
    if nearer, nodes == nil || !edge.isEmpty {
      throw SetupError("--nearer: goes with --nodes only")
    }
    try need((1...4096).contains(shards), "--shards", shards, "give 1 to 4096")
  }

  func need(_ holds: Bool, _ option: String, _ value: Any, _ remedy: String) throws {
    if !holds { throw SetupError("\(option) \(value): \(remedy)") }
  }

  func trust() throws -> EdgeTrust {
    let isSecure = edge.contains { (try? RunPlan.edgeURL($0))?.hasPrefix("wss://") == true }
    if tls, !edge.isEmpty {
      throw SetupError("--tls: is for a local cluster; with --edge give wss:// and --ca")
    }
    if tls || isSecure, !hostile.isEmpty || apps > 1 {
      throw SetupError("--hostile: attackers speak no TLS; leave out --tls, or give ws:// edges")
    }
    guard let ca else { return .system }
    try need(isSecure, "--ca", ca, "goes with --edge wss://… only")
    do { return try EdgeTrust(caFile: ca) } catch { throw SetupError("--ca \(error)") }
  }

  func chaosPlan(_ scenario: Scenario) throws -> ChaosPlan? {
    guard !chaos.isEmpty else { return nil }
    let plan = try ChaosPlan(chaos)
    let text = chaos.joined(separator: ",")
    try need(
      sleeping != nil || hasWebhooks(scenario) && nodes == nil
        || !text.contains(ChaosKind.killPush.rawValue),
      "--chaos", text,
      "only with --sleeping, or --webhooks without --nodes, there are push gateways; give both")
    try need(edge.isEmpty, "--chaos", text, "only a local cluster is disturbed; leave --edge out")
    try need(!findMax, "--chaos", text, "does not go with --find-max; leave one of them out")
    try need(
      duration.seconds >= 5, "--duration", duration, "too short for --chaos; give at least 5s")
    return plan
  }

  /// nil where no device sleeps.
  func sleepOptions() throws -> SleepOptions? {
    guard let share = sleeping, share.value > 0 else {
      try need(
        !providerTrouble, "--provider-trouble", true, "no device sleeps; give --sleeping 40%")
      return nil
    }
    try need(
      edge.isEmpty, "--sleeping", share,
      "callload is the provider of a local cluster only; leave --edge out")
    try need(share.value <= 0.9, "--sleeping", share, "callers must be awake; give at most 90%")
    try need(
      wakeDelay.seconds <= 1, "--wake-delay", wakeDelay,
      "some calls ring for 5s only, and devices may take three times as long; give at most 1s")
    try need(
      neverWake.value + lateWake.value <= 1, "--never-wake", neverWake,
      "with --late-wake \(lateWake) it is more than all")
    try need((1...64).contains(pushGateways), "--push-gateways", pushGateways, "give 1 to 64")
    var options = SleepOptions(share: share.value)
    options.wakeDelayMilliseconds = wakeDelay.seconds * 1000
    options.neverShare = neverWake.value
    options.lateShare = lateWake.value
    options.isProviderTroubled = providerTrouble
    return options
  }

  func checkApp() throws {
    for (option, isGiven) in [
      ("--webhooks", webhooks), ("--history", history), ("--ongoing", ongoing),
      ("--hook", hook),
    ] where isGiven {
      guard edge.isEmpty else {
        throw SetupError(
          "\(option): is for the app of a local cluster, which callload makes; leave --edge out")
      }
      for (other, isGiven) in [
        ("--find-max", findMax), ("--hostile", !hostile.isEmpty), ("--apps", apps > 1),
      ] where isGiven {
        throw SetupError("\(option): does not go with \(other); leave one of them out")
      }
    }
    if webhooks {
      try need((1...64).contains(pushGateways), "--push-gateways", pushGateways, "give 1 to 64")
    }
  }

  /// nil without attacks.
  func hostilePlan() throws -> HostilePlan? {
    try need((1...2).contains(apps), "--apps", apps, "give 1, or 2 of which the second is hostile")
    let words = hostile + (apps == 2 ? [Attack.appFlood.rawValue] : [])
    guard !words.isEmpty else { return nil }
    let plan = try HostilePlan(
      words, attackSeconds: duration.seconds, recoverySeconds: recovery.seconds)
    let others: [(option: String, isGiven: Bool)] = [
      ("--chaos", !chaos.isEmpty), ("--find-max", findMax),
      ("--sleeping", sleeping != nil), ("--check-growth", checkGrowth),
    ]
    for other in others where other.isGiven {
      throw SetupError(
        "\(other.option): does not go with --hostile or --apps 2; leave one of them out")
    }
    guard duration.seconds <= 600, recovery.seconds <= 600 else {
      throw SetupError(
        "--duration \(duration), --recovery \(recovery): attacks are bounded; "
          + "give at most 10m")
    }
    return plan
  }
}
