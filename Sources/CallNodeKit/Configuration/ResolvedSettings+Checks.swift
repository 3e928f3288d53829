internal import CallBus
internal import CallCoordinator
internal import CallCore
internal import CallEdge

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
    var problems = ringTimeoutProblems + contradictions
    if let roles, roles.hasEdge || roles.hasCoordinator, node.keysFile == nil {
      problems.append(
        missing("keysFile", "edges and coordinators need the file with the keys of the apps"))
    }
    if roles == .push, node.pushProvidersFile == nil {
      problems.append(
        missing("pushProviders", "a push gateway needs the file with the push providers"))
    }
    if !problems.isEmpty { throw ConfigurationError(problems) }
    return node
  }

  private var ringTimeoutProblems: [ConfigurationError.Problem] {
    let limits = values.limits
    let (low, high) = (limits.ringTimeoutMinimum, limits.ringTimeoutMaximum)
    if high < low {
      return [
        problem(
          "ringTimeoutMaximum", "is shorter than \(named("ringTimeoutMinimum"))",
          "Make it longer, or the minimum shorter.")
      ]
    }
    if low <= limits.ringTimeout, limits.ringTimeout <= high { return [] }
    return [
      problem(
        "ringTimeout",
        "is not between \(named("ringTimeoutMinimum")) and \(named("ringTimeoutMaximum"))",
        "Change it, or the bound with --ring-timeout-minimum or --ring-timeout-maximum.")
    ]
  }

  private var contradictions: [ConfigurationError.Problem] {
    var problems: [ConfigurationError.Problem] = []
    if values.coordinator.leaseTimeout.microseconds < values.heartbeatInterval.microseconds * 3 {
      problems.append(
        problem(
          "leaseTimeout",
          "is less than three times \(named("heartbeatInterval")), so that one late heartbeat would "
            + "count as a death",
          "Make it longer, or heartbeats more frequent with --heartbeat-interval."))
    }
    if values.edge.proxyProtocol, values.edge.trustedProxies.isEmpty {
      problems.append(
        problem(
          "proxyProtocol", "is set, and trustedProxies names nobody who may send a PROXY header",
          "Name the proxies with --trusted-proxies."))
    }
    let files = [("tlsCertificate", values.tlsCertificate), ("tlsKey", values.tlsKey)]
    for ((given, path), (other, otherPath)) in zip(files, files.reversed())
    where path != nil && otherPath == nil {
      problems.append(
        problem(
          SettingKey(rawValue: given), "is set, and \(other) is not",
          "Name that file with \(SettingKey(rawValue: other).flag), or leave out both."))
    }
    let journalBytes = values.coordinator.journal.bytesPerShard ?? .max
    if journalBytes / 4 < values.coordinator.checkpointEveryBytes {
      problems.append(
        problem(
          "journalBytes", "is less than four times \(named("checkpointEveryBytes"))",
          "Make it larger, or checkpoints more frequent with --checkpoint-every-bytes."))
    }
    return problems
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
