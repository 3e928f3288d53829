internal import CallBus
internal import CallCoordinator
internal import CallCore
internal import CallEdge
internal import CallPush

extension ResolvedSettings {
  /// Returns the configuration, checked.
  /// - Parameters:
  ///   - roles: what runs; nil: only what holds for all roles is checked.
  ///   - generatedNodeID: the name where none is set.
  /// - Throws: `ConfigurationError` where settings contradict each other or the role lacks one.
  package func node(for roles: NodeRoles?, generatedNodeID: String) throws(ConfigurationError)
    -> NodeConfiguration
  {
    var node = values
    if node.nodeID.isEmpty { node.nodeID = generatedNodeID }
    node.edge.peers.requestBodyBytesMax = max(
      node.edge.peers.requestBodyBytesMax, node.limits.placingBodyBytes)
    var problems = contradictions
    if let roles, roles.hasEdge || roles.hasCoordinator, node.keysFile == nil {
      problems.append(
        missing("keysFile", "edges and coordinators need the file with the keys of the apps"))
    }
    if roles == .push, node.pushProvidersFile == nil, node.keysFile == nil {
      problems.append(
        missing(
          "pushProviders",
          "a push gateway needs the file with the push providers, or, for webhooks alone, keysFile")
      )
    }
    if !problems.isEmpty { throw ConfigurationError(problems) }
    return node
  }

  private typealias Check = (isWrong: Bool, key: SettingKey, problem: String, remedy: String)

  /// No limit may refuse later in a flow what an earlier one has let in.
  private var laterLimits: [Check] {
    let frame = values.edge.peers.frameBytesMax
    let excess = values.limits.placeBytes - frame
    let (kept, retried) = (values.coordinator.events.kept, WebhookMachine.lifetime.microseconds)
    return [
      (
        excess > 0, "descriptionBytes",
        "does not fit into a frame of \(frame) bytes with \(named("headersBytes")), "
          + "\(named("headersCount")) and \(named("pushDataBytes"))",
        "Make them smaller, by \(excess) bytes in all."
      ),
      (
        kept > .zero && kept < .microseconds(retried), "eventsKept",
        "is shorter than the time of webhooks, which are retried for \(retried / 3_600_000_000) hours",
        "Make it longer, or 0 where there are no webhooks."
      ),
    ]
  }

  private var contradictions: [ConfigurationError.Problem] {
    let (limits, coordinator) = (values.limits, values.coordinator)
    let (low, high) = (limits.ringTimeoutMinimum, limits.ringTimeoutMaximum)
    // In each pair both are given, or none.
    let pairs = [
      [("tlsCertificate", values.tlsCertificate), ("tlsKey", values.tlsKey)],
      [("turnUrls", values.turnURLs.first), ("turnSecretFile", values.turnSecretFile)],
    ]
    var checks: [Check] = [
      (
        high < low, "ringTimeoutMaximum", "is shorter than \(named("ringTimeoutMinimum"))",
        "Make it longer, or the minimum shorter."
      ),
      (
        high >= low && !(low...max(low, high)).contains(limits.ringTimeout), "ringTimeout",
        "is not between \(named("ringTimeoutMinimum")) and \(named("ringTimeoutMaximum"))",
        "Change it, or the bound with --ring-timeout-minimum or --ring-timeout-maximum."
      ),
      (
        coordinator.leaseTimeout.microseconds < values.heartbeatInterval.microseconds * 3,
        "leaseTimeout",
        "is less than three times \(named("heartbeatInterval")), so that one late heartbeat would "
          + "count as a death",
        "Make it longer, or heartbeats more frequent with --heartbeat-interval."
      ),
      (
        values.edge.proxyProtocol && values.edge.trustedProxies.isEmpty, "proxyProtocol",
        "is set, and trustedProxies names nobody who may send a PROXY header",
        "Name the proxies with --trusted-proxies."
      ),
    ]
    checks += pairs.flatMap { zip($0, $0.reversed()) }.map { given, other in
      (
        given.1 != nil && other.1 == nil, SettingKey(rawValue: given.0),
        "is set, and \(other.0) is not",
        "Give that one with \(SettingKey(rawValue: other.0).flag), or leave out both."
      )
    }
    checks.append(
      (
        (coordinator.journal.bytesPerShard ?? .max) / 4 < coordinator.checkpointEveryBytes,
        "journalBytes", "is less than four times \(named("checkpointEveryBytes"))",
        "Make it larger, or checkpoints more frequent with --checkpoint-every-bytes."
      ))
    checks += laterLimits
    return checks.filter(\.isWrong).map { problem($0.key, $0.problem, $0.remedy) }
  }

  /// Returns a problem with the value of a setting.
  func problem(_ key: SettingKey, _ problem: String, _ remedy: String?)
    -> ConfigurationError.Problem
  {
    .init(
      setting: key.rawValue, value: text(key), origin: origin(of: key), problem: problem,
      remedy: remedy)
  }

  private func missing(_ key: SettingKey, _ problem: String) -> ConfigurationError.Problem {
    .init(
      setting: key.rawValue, value: nil, origin: nil, problem: problem,
      remedy: "Give it with \(key.flag) PATH or \(key.environment). "
        + (Setting.of(key)?.remedy ?? ""))
  }

  private func named(_ key: SettingKey) -> String { "\(key.rawValue) (\(text(key) ?? "none"))" }
}
