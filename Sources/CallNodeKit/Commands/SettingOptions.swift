internal import ArgumentParser

// The flags of all settings. They are read as text, so that a refused value gets the same answer
// from a flag as from the environment or the file; help comes from the table of settings.

struct NodeOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "A JSON file with settings. CALLMESH_CONFIG does the same.", valueName: "path"))
  var config: String?
  @Option(help: .of(.cluster)) var cluster: String?
  @Option(help: .of(.nodeId)) var nodeId: String?
  @Option(help: .of(.natsUrl)) var natsUrl: String?
  @Option(help: .of(.natsCredentials)) var natsCredentials: String?
  @Option(help: .of(.natsUser)) var natsUser: String?
  @Option(help: .of(.natsPasswordFile)) var natsPasswordFile: String?
  @Option(help: .of(.natsCA)) var natsCA: String?
  @Option(help: .of(.natsCertificate)) var natsCertificate: String?
  @Option(help: .of(.natsKey)) var natsKey: String?
  @Option(help: .of(.startTimeout)) var startTimeout: String?
  @Option(help: .of(.shardCount)) var shardCount: String?
  @Option(help: .of(.drainSeconds)) var drainSeconds: String?
  @Option(help: .of(.heartbeatInterval)) var heartbeatInterval: String?
  @Option(help: .of(.host)) var host: String?
  @Option(help: .of(.metricsPort)) var metricsPort: String?
  @Option(help: .of(.metricsHost)) var metricsHost: String?
  @Option(help: .of(.logLevel)) var logLevel: String?
  @Option(help: .of(.logFormat)) var logFormat: String?

  var given: [SettingKey: String] {
    [
      .cluster: cluster, .nodeId: nodeId, .natsUrl: natsUrl,
      .natsCredentials: natsCredentials, .natsUser: natsUser,
      .natsPasswordFile: natsPasswordFile, .natsCA: natsCA, .natsCertificate: natsCertificate,
      .natsKey: natsKey, .startTimeout: startTimeout, .shardCount: shardCount,
      .drainSeconds: drainSeconds, .heartbeatInterval: heartbeatInterval, .host: host,
      .metricsPort: metricsPort, .metricsHost: metricsHost, .logLevel: logLevel,
      .logFormat: logFormat,
    ].compactMapValues { $0 }
  }
}

struct EdgeOptions: ParsableArguments {
  @Option(help: .of(.port)) var port: String?
  @Option(help: .of(.tlsCertificate)) var tlsCertificate: String?
  @Option(help: .of(.tlsKey)) var tlsKey: String?
  @Option(help: .of(.eventLoops)) var eventLoops: String?
  @Option(help: .of(.pingInterval)) var pingInterval: String?
  @Option(help: .of(.commandsPerSecond)) var commandsPerSecond: String?
  @Option(help: .of(.commandsBurst)) var commandsBurst: String?
  @Option(help: .of(.allowedOrigins)) var allowedOrigins: String?
  @Option(help: .of(.connectionsMax)) var connectionsMax: String?
  @Option(help: .of(.connectionsPerAddress)) var connectionsPerAddress: String?
  @Option(help: .of(.unattachedMax)) var unattachedMax: String?
  @Option(help: .of(.requestsPerAddress)) var requestsPerAddress: String?
  @Option(help: .of(.failedAuthsPerAddress)) var failedAuthsPerAddress: String?
  @Option(help: .of(.trustedProxies)) var trustedProxies: String?
  @Option(help: .of(.proxyProtocol)) var proxyProtocol: String?
  @Option(help: .of(.unlimitedAddresses)) var unlimitedAddresses: String?

  var given: [SettingKey: String] {
    [
      .port: port, .tlsCertificate: tlsCertificate, .tlsKey: tlsKey,
      .eventLoops: eventLoops, .pingInterval: pingInterval,
      .commandsPerSecond: commandsPerSecond, .commandsBurst: commandsBurst,
      .allowedOrigins: allowedOrigins, .connectionsMax: connectionsMax,
      .connectionsPerAddress: connectionsPerAddress, .unattachedMax: unattachedMax,
      .requestsPerAddress: requestsPerAddress, .failedAuthsPerAddress: failedAuthsPerAddress,
      .trustedProxies: trustedProxies, .proxyProtocol: proxyProtocol,
      .unlimitedAddresses: unlimitedAddresses,
    ].compactMapValues { $0 }
  }
}

/// Of nodes that check tokens.
struct KeysOptions: ParsableArguments {
  @Option(help: .of(.keysFile)) var keysFile: String?
  @Option(help: .of(.maxTokenAge)) var maxTokenAge: String?

  var given: [SettingKey: String] {
    [.keysFile: keysFile, .maxTokenAge: maxTokenAge].compactMapValues { $0 }
  }
}

struct PushOptions: ParsableArguments {
  @Option(help: .of(.pushProviders)) var pushProviders: String?
  @Option(help: .of(.pushInFlight)) var pushInFlight: String?
  @Option(help: .of(.pushWaiting)) var pushWaiting: String?

  var given: [SettingKey: String] {
    [
      .pushProviders: pushProviders, .pushInFlight: pushInFlight, .pushWaiting: pushWaiting,
    ].compactMapValues { $0 }
  }
}

struct CoordinatorOptions: ParsableArguments {
  @Option(help: .of(.workers)) var workers: String?
  @Option(help: .of(.sessionTickets)) var sessionTickets: String?
  @Option(help: .of(.leaseTimeout)) var leaseTimeout: String?
  @Option(help: .of(.probeTime)) var probeTime: String?
  @Option(help: .of(.probeAfterConnect)) var probeAfterConnect: String?
  @Option(help: .of(.journalReplicas)) var journalReplicas: String?
  @Option(help: .of(.appendTimeout)) var appendTimeout: String?
  @Option(help: .of(.checkpointEveryRecords)) var checkpointEveryRecords: String?
  @Option(help: .of(.checkpointEveryBytes)) var checkpointEveryBytes: String?
  @Option(help: .of(.checkpointEvery)) var checkpointEvery: String?
  @Option(help: .of(.rebalanceInterval)) var rebalanceInterval: String?
  @Option(help: .of(.stoppedRetry)) var stoppedRetry: String?
  @Option(help: .of(.journalBytes)) var journalBytes: String?
  @Option(help: .of(.bucketBytes)) var bucketBytes: String?
  @Option(help: .of(.pushQueueBytes)) var pushQueueBytes: String?

  var given: [SettingKey: String] {
    [
      .workers: workers, .sessionTickets: sessionTickets, .leaseTimeout: leaseTimeout,
      .probeTime: probeTime, .probeAfterConnect: probeAfterConnect,
      .journalReplicas: journalReplicas, .appendTimeout: appendTimeout,
      .checkpointEveryRecords: checkpointEveryRecords,
      .checkpointEveryBytes: checkpointEveryBytes, .checkpointEvery: checkpointEvery,
      .rebalanceInterval: rebalanceInterval, .stoppedRetry: stoppedRetry,
      .journalBytes: journalBytes, .bucketBytes: bucketBytes, .pushQueueBytes: pushQueueBytes,
    ].compactMapValues { $0 }
  }
}

struct CallOptions: ParsableArguments {
  @Option(help: .of(.ringTimeout)) var ringTimeout: String?
  @Option(help: .of(.ringTimeoutMinimum)) var ringTimeoutMinimum: String?
  @Option(help: .of(.ringTimeoutMaximum)) var ringTimeoutMaximum: String?
  @Option(help: .of(.connectGrace)) var connectGrace: String?
  @Option(help: .of(.resumeGraceRinging)) var resumeGraceRinging: String?
  @Option(help: .of(.resumeGraceAnswered)) var resumeGraceAnswered: String?
  @Option(help: .of(.reattachGrace)) var reattachGrace: String?
  @Option(help: .of(.deliveryRepeats)) var deliveryRepeats: String?
  @Option(help: .of(.endedCallKept)) var endedCallKept: String?
  @Option(help: .of(.registrationLifetime)) var registrationLifetime: String?
  @Option(help: .of(.devicesPerUser)) var devicesPerUser: String?
  @Option(help: .of(.liveCallsPerDevice)) var liveCallsPerDevice: String?
  @Option(help: .of(.callsPerPairPerMinute)) var callsPerPairPerMinute: String?
  @Option(help: .of(.headersCount)) var headersCount: String?
  @Option(help: .of(.headersBytes)) var headersBytes: String?
  @Option(help: .of(.descriptionBytes)) var descriptionBytes: String?
  @Option(help: .of(.signalsWaiting)) var signalsWaiting: String?
  @Option(help: .of(.signalBytes)) var signalBytes: String?
  @Option(help: .of(.lazyAppend)) var lazyAppend: String?
  @Option(help: .of(.callsPerShard)) var callsPerShard: String?
  @Option(help: .of(.busyWhileInCall)) var busyWhileInCall: String?

  var given: [SettingKey: String] {
    [
      .ringTimeout: ringTimeout, .ringTimeoutMinimum: ringTimeoutMinimum,
      .ringTimeoutMaximum: ringTimeoutMaximum, .connectGrace: connectGrace,
      .resumeGraceRinging: resumeGraceRinging, .resumeGraceAnswered: resumeGraceAnswered,
      .reattachGrace: reattachGrace, .deliveryRepeats: deliveryRepeats,
      .endedCallKept: endedCallKept,
      .registrationLifetime: registrationLifetime, .devicesPerUser: devicesPerUser,
      .liveCallsPerDevice: liveCallsPerDevice, .callsPerPairPerMinute: callsPerPairPerMinute,
      .headersCount: headersCount, .headersBytes: headersBytes,
      .descriptionBytes: descriptionBytes, .signalsWaiting: signalsWaiting,
      .signalBytes: signalBytes, .lazyAppend: lazyAppend, .callsPerShard: callsPerShard,
      .busyWhileInCall: busyWhileInCall,
    ].compactMapValues { $0 }
  }
}

extension ArgumentHelp {
  fileprivate static func of(_ key: SettingKey) -> ArgumentHelp {
    let setting = Setting.of(key)
    return ArgumentHelp(
      "\(setting.meaning) (default: \(setting.shownStandard))", valueName: setting.kind.typeName)
  }
}
