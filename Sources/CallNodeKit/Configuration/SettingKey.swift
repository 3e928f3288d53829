/// Every setting of a node. The raw value is the key in a configuration file; the flag and the
/// environment variable follow from it (`ringTimeout`, `--ring-timeout`, `CALLMESH_RING_TIMEOUT`).
package enum SettingKey: String, CaseIterable, Sendable {
  // Every node.
  case cluster, nodeId, natsUrl, natsCredentials, startTimeout, shardCount, drainSeconds
  case natsUser, natsPasswordFile, natsCA, natsCertificate, natsKey
  case heartbeatInterval
  case host, metricsPort, metricsHost, logLevel, logFormat
  // Edges.
  case port, tlsCertificate, tlsKey, keysFile, eventLoops, pingInterval, commandsPerSecond,
    commandsBurst, allowedOrigins
  case connectionsMax, connectionsPerAddress, unattachedMax, requestsPerAddress
  case failedAuthsPerAddress, trustedProxies, proxyProtocol, unlimitedAddresses
  case maxTokenAge
  // Coordinators.
  case workers, sessionTickets, leaseTimeout, probeTime, probeAfterConnect, journalReplicas,
    appendTimeout
  case checkpointEveryRecords, checkpointEveryBytes, checkpointEvery, rebalanceInterval
  case stoppedRetry, journalBytes, bucketBytes, pushQueueBytes
  // Push gateways.
  case pushProviders, pushInFlight, pushWaiting
  // The rules of calls; the same on every node.
  case ringTimeout, ringTimeoutMinimum, ringTimeoutMaximum, connectGrace, resumeGraceRinging
  case resumeGraceAnswered, reattachGrace, deliveryRepeats, endedCallKept, registrationLifetime
  case devicesPerUser, liveCallsPerDevice, callsPerPairPerMinute, headersCount, headersBytes
  case descriptionBytes, signalsWaiting, signalBytes, lazyAppend, callsPerShard, busyWhileInCall

  package var flag: String { "--" + words.joined(separator: "-") }
  package var environment: String {
    "CALLMESH_" + words.joined(separator: "_").uppercased()
  }

  /// `ringTimeout` → ring, timeout; `natsCA` → nats, ca.
  private var words: [String] {
    var words = [""]
    var last: Character = "A"
    for character in rawValue {
      if character.isUppercase, !last.isUppercase { words.append("") }
      words[words.count - 1].append(contentsOf: character.lowercased())
      last = character
    }
    return words
  }
}

/// Which nodes a setting concerns. All of them accept it, so that one file serves a whole cluster.
package enum SettingGroup: String, CaseIterable, Sendable {
  case node, edge, coordinator, push, calls

  package var title: String {
    switch self {
    case .node: "Every node"
    case .edge: "Edge"
    case .coordinator: "Coordinator"
    case .push: "Push gateway"
    case .calls: "Rules of calls"
    }
  }
}

/// One row of the table of settings: what help, errors, `callnode config` and the documentation
/// say of a setting.
package struct Setting: Sendable {
  package var key: SettingKey
  package var group: SettingGroup
  package var kind: ValueKind
  /// The default as one would write it; nil where it is worked out at start.
  package var standard: String?
  /// Where `standard` is nil: how the default comes about.
  package var standardNote: String?
  package var meaning: String
  /// What to do where a value is refused, beyond what its kind says.
  package var remedy: String?

  package init(
    _ key: SettingKey, _ group: SettingGroup, _ kind: ValueKind, _ standard: String?,
    note: String? = nil, _ meaning: String, remedy: String? = nil
  ) {
    self.key = key
    self.group = group
    self.kind = kind
    self.standard = standard
    standardNote = note
    self.meaning = meaning
    self.remedy = remedy
  }

  /// The default as help and documentation show it.
  package var shownStandard: String { standard ?? standardNote ?? "none" }
}
