package import CallBus
package import CallCoordinator
package import CallCore
package import CallEdge
package import CallTelemetry
package import Logging
package import NATSBus

/// What a process runs.
package enum NodeRoles: String, Sendable, CaseIterable {
  case edge
  case coordinator
  case push
  /// All in one process: a push gateway where there are providers.
  case all

  package var hasEdge: Bool { self == .edge || self == .all }
  package var hasCoordinator: Bool { self == .coordinator || self == .all }
  package var hasPush: Bool { self == .push || self == .all }
}

/// What the settings mean to a node, checked against each other.
package struct NodeConfiguration: Sendable {
  package var cluster: String
  package var nodeID: String
  package var natsURL: String
  package var natsAccess: NATSAccess
  package var startTimeout: Span
  /// nil: the cluster's.
  package var shardCount: Int?
  package var drain: Span
  package var heartbeatInterval: Span
  package var logLevel: Logger.Level
  package var logFormat: LogFormat
  package var host: String
  /// 0: none.
  package var metricsPort: Int
  package var metricsHost: String
  package var port: Int
  /// Both or none.
  package var tlsCertificate: String?
  package var tlsKey: String?
  package var keysFile: String?
  package var maxTokenAge: Span
  /// nil: one per core.
  package var eventLoops: Int?
  package var pingInterval: Span
  package var commandsPerSecond: Int
  package var commandsBurst: Int
  package var allowedOrigins: [String]
  /// nil: what the limit of open files leaves.
  package var connectionsMax: Int?
  /// All but `connectionsMax`.
  package var peers: PeerLimits
  package var trustedProxies: [AddressRange]
  package var proxyProtocol: Bool
  package var unlimitedAddresses: [AddressRange]
  package var workers: Int
  package var sessionTickets: SessionTickets
  package var leaseTimeout: Span
  /// nil: silent nodes are not looked for.
  package var probeTime: Span?
  package var probeAfterConnect: Span
  package var checkpointEveryRecords: Int
  package var checkpointEveryBytes: Int
  package var checkpointEvery: Span
  package var rebalanceInterval: Span
  package var stoppedRetry: Span
  package var journal: JournalOptions
  package var bucket: BucketOptions
  package var pushQueueBytes: Int64
  /// nil: none.
  package var pushProvidersFile: String?
  /// Of one pool.
  package var pushInFlight: Int
  package var pushWaiting: Int
  package var limits: CallLimits

  /// - Parameter generatedNodeID: the name where none is set.
  /// - Throws: `ConfigurationError` where settings contradict each other or the role lacks one.
  package init(_ settings: ResolvedSettings, roles: NodeRoles?, generatedNodeID: String)
    throws(ConfigurationError)
  {
    cluster = settings.text(.cluster)
    nodeID = settings[.nodeId] == nil ? generatedNodeID : settings.text(.nodeId)
    natsURL = settings.text(.natsUrl)
    natsAccess = settings.natsAccess
    startTimeout = settings.span(.startTimeout)
    shardCount = settings[.shardCount] == nil ? nil : settings.integer(.shardCount)
    drain = settings.span(.drainSeconds)
    heartbeatInterval = settings.span(.heartbeatInterval)
    logLevel = Logger.Level(rawValue: settings.text(.logLevel)) ?? .info
    logFormat = LogFormat(rawValue: settings.text(.logFormat)) ?? .auto
    host = settings.text(.host)
    metricsPort = settings.integer(.metricsPort)
    metricsHost = settings.text(.metricsHost)
    port = settings.integer(.port)
    tlsCertificate = settings[.tlsCertificate] == nil ? nil : settings.text(.tlsCertificate)
    tlsKey = settings[.tlsKey] == nil ? nil : settings.text(.tlsKey)
    keysFile = settings[.keysFile] == nil ? nil : settings.text(.keysFile)
    maxTokenAge = settings.span(.maxTokenAge)
    eventLoops = settings[.eventLoops] == nil ? nil : settings.integer(.eventLoops)
    pingInterval = settings.span(.pingInterval)
    commandsPerSecond = settings.integer(.commandsPerSecond)
    commandsBurst = settings.integer(.commandsBurst)
    allowedOrigins =
      settings[.allowedOrigins] == nil
      ? [] : ValueKind.origins(settings.text(.allowedOrigins)) ?? []
    connectionsMax =
      settings[.connectionsMax] == nil ? nil : settings.integer(.connectionsMax)
    peers = settings.peers
    trustedProxies = settings.addresses(.trustedProxies)
    proxyProtocol = settings[.proxyProtocol] == .boolean(true)
    unlimitedAddresses = settings.addresses(.unlimitedAddresses)
    workers = settings.integer(.workers)
    sessionTickets = SessionTickets(rawValue: settings.text(.sessionTickets)) ?? .required
    leaseTimeout = settings.span(.leaseTimeout)
    let probing = settings.span(.probeTime)
    probeTime = probing.microseconds > 0 ? probing : nil
    probeAfterConnect = settings.span(.probeAfterConnect)
    checkpointEveryRecords = settings.integer(.checkpointEveryRecords)
    checkpointEveryBytes = settings.integer(.checkpointEveryBytes)
    checkpointEvery = settings.span(.checkpointEvery)
    rebalanceInterval = settings.span(.rebalanceInterval)
    stoppedRetry = settings.span(.stoppedRetry)
    journal = JournalOptions()
    journal.replicas = settings.integer(.journalReplicas)
    journal.appendTimeout = settings.duration(.appendTimeout)
    journal.bytesPerShard = Int64(settings.integer(.journalBytes))
    bucket = BucketOptions()
    bucket.replicas = journal.replicas
    bucket.bytesMax = Int64(settings.integer(.bucketBytes))
    pushQueueBytes = Int64(settings.integer(.pushQueueBytes))
    pushProvidersFile =
      settings[.pushProviders] == nil ? nil : settings.text(.pushProviders)
    pushInFlight = settings.integer(.pushInFlight)
    pushWaiting = settings.integer(.pushWaiting)
    limits = settings.limits

    var problems: [ConfigurationError.Problem] = []
    settings.checkRingTimeouts(&problems)
    settings.checkLease(&problems)
    settings.checkProxies(&problems)
    settings.checkTLS(&problems)
    settings.checkJournalBytes(&problems)
    if let roles, roles.hasEdge || roles.hasCoordinator, keysFile == nil {
      problems.append(settings.missingKeysFile)
    }
    if roles == .push, pushProvidersFile == nil { problems.append(settings.missingProviders) }
    if !problems.isEmpty { throw ConfigurationError(problems) }
  }
}

extension ResolvedSettings {
  fileprivate func text(_ key: SettingKey) -> String { self[key]?.shown ?? "" }
  fileprivate func integer(_ key: SettingKey) -> Int {
    if case .integer(let number) = self[key] { number } else { 0 }
  }
  fileprivate func span(_ key: SettingKey) -> Span {
    if case .microseconds(let value) = self[key] {
      Span(microseconds: value)
    } else {
      Span(microseconds: 0)
    }
  }
  fileprivate func duration(_ key: SettingKey) -> Duration {
    .microseconds(span(key).microseconds)
  }

  fileprivate var natsAccess: NATSAccess {
    func given(_ key: SettingKey) -> String? { self[key] == nil ? nil : text(key) }
    var access = NATSAccess()
    access.credentialsFile = given(.natsCredentials)
    access.user = given(.natsUser)
    access.passwordFile = given(.natsPasswordFile)
    access.ca = given(.natsCA)
    access.certificate = given(.natsCertificate)
    access.key = given(.natsKey)
    return access
  }

  fileprivate func addresses(_ key: SettingKey) -> [AddressRange] {
    self[key] == nil ? [] : AddressRange.list(text(key)) ?? []
  }

  fileprivate var peers: PeerLimits {
    var peers = PeerLimits()
    peers.connectionsPerAddress = integer(.connectionsPerAddress)
    peers.unattachedMax = self[.unattachedMax] == nil ? nil : integer(.unattachedMax)
    peers.requestsPerAddress = integer(.requestsPerAddress)
    peers.failedAuthsPerAddress = integer(.failedAuthsPerAddress)
    return peers
  }

  fileprivate func checkProxies(_ problems: inout [ConfigurationError.Problem]) {
    guard self[.proxyProtocol] == .boolean(true), self[.trustedProxies] == nil else { return }
    problems.append(
      problem(
        .proxyProtocol, "is set, and trustedProxies names nobody who may send a PROXY header",
        "Name the proxies with \(SettingKey.trustedProxies.flag)."))
  }

  fileprivate func checkTLS(_ problems: inout [ConfigurationError.Problem]) {
    for (given, missing) in [
      (SettingKey.tlsCertificate, SettingKey.tlsKey), (.tlsKey, .tlsCertificate),
    ]
    where self[given] != nil && self[missing] == nil {
      problems.append(
        problem(
          given, "is set, and \(missing.rawValue) is not",
          "Name that file with \(missing.flag), or leave out both."))
    }
  }

  fileprivate var limits: CallLimits {
    var limits = CallLimits()
    limits.ringTimeout = span(.ringTimeout)
    limits.ringTimeoutMinimum = span(.ringTimeoutMinimum)
    limits.ringTimeoutMaximum = span(.ringTimeoutMaximum)
    limits.connectGrace = span(.connectGrace)
    limits.resumeGraceRinging = span(.resumeGraceRinging)
    limits.resumeGraceAnswered = span(.resumeGraceAnswered)
    limits.reattachGrace = span(.reattachGrace)
    if case .microsecondsList(let list) = self[.deliveryRepeats] {
      limits.deliveryRepeats = list.map { Span(microseconds: $0) }
    }
    limits.endedCallKept = span(.endedCallKept)
    limits.registrationLifetime = span(.registrationLifetime)
    limits.devicesPerUser = integer(.devicesPerUser)
    limits.liveCallsPerDevice = integer(.liveCallsPerDevice)
    limits.callsPerPairPerMinute = integer(.callsPerPairPerMinute)
    limits.headersCount = integer(.headersCount)
    limits.headersBytes = integer(.headersBytes)
    limits.descriptionBytes = integer(.descriptionBytes)
    limits.signalsWaiting = integer(.signalsWaiting)
    limits.signalBytes = integer(.signalBytes)
    limits.lazyAppend = span(.lazyAppend)
    limits.callsPerShard = integer(.callsPerShard)
    limits.busyWhileInCall = self[.busyWhileInCall] == .boolean(true)
    return limits
  }

  fileprivate func checkRingTimeouts(_ problems: inout [ConfigurationError.Problem]) {
    let (low, high) = (span(.ringTimeoutMinimum), span(.ringTimeoutMaximum))
    if high < low {
      problems.append(
        problem(
          .ringTimeoutMaximum, "is shorter than ringTimeoutMinimum (\(text(.ringTimeoutMinimum)))",
          "Make it longer, or the minimum shorter."))
    } else if span(.ringTimeout) < low || high < span(.ringTimeout) {
      problems.append(
        problem(
          .ringTimeout,
          "is not between ringTimeoutMinimum (\(text(.ringTimeoutMinimum))) and "
            + "ringTimeoutMaximum (\(text(.ringTimeoutMaximum)))",
          "Change it, or the bound with \(SettingKey.ringTimeoutMinimum.flag) or "
            + "\(SettingKey.ringTimeoutMaximum.flag)."))
    }
  }

  fileprivate func checkLease(_ problems: inout [ConfigurationError.Problem]) {
    let least = Span(microseconds: span(.heartbeatInterval).microseconds * 3)
    guard span(.leaseTimeout) < least else { return }
    problems.append(
      problem(
        .leaseTimeout,
        "is less than three times heartbeatInterval (\(text(.heartbeatInterval))), so that one late "
          + "heartbeat would count as a death",
        "Make it longer, or heartbeats more frequent with \(SettingKey.heartbeatInterval.flag)."))
  }

  fileprivate func checkJournalBytes(_ problems: inout [ConfigurationError.Problem]) {
    guard integer(.journalBytes) / 4 < integer(.checkpointEveryBytes) else { return }
    problems.append(
      problem(
        .journalBytes,
        "is less than four times checkpointEveryBytes (\(text(.checkpointEveryBytes)))",
        "Make it larger, or checkpoints more frequent with \(SettingKey.checkpointEveryBytes.flag)."
      ))
  }

  fileprivate var missingKeysFile: ConfigurationError.Problem {
    .init(
      setting: SettingKey.keysFile.rawValue, value: nil, origin: nil,
      problem: "edges and coordinators need the file with the keys of the apps",
      remedy: "Give it with --keys-file PATH or CALLMESH_KEYS_FILE. "
        + (Setting.of(.keysFile).remedy ?? ""))
  }

  fileprivate var missingProviders: ConfigurationError.Problem {
    .init(
      setting: SettingKey.pushProviders.rawValue, value: nil, origin: nil,
      problem: "a push gateway needs the file with the push providers",
      remedy: "Give it with \(SettingKey.pushProviders.flag) PATH or "
        + "\(SettingKey.pushProviders.environment). " + (Setting.of(.pushProviders).remedy ?? ""))
  }

  private func problem(_ key: SettingKey, _ problem: String, _ remedy: String)
    -> ConfigurationError.Problem
  {
    .init(
      setting: key.rawValue, value: text(key), origin: entries[key]?.origin, problem: problem,
      remedy: remedy)
  }
}
