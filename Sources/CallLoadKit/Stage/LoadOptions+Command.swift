import CallAuth
import CallClient
import CallWire
import Glibc

extension LoadOptions {
  /// The options of one process of a run.
  /// - Throws: ``SetupError`` or another error that says which file cannot be read.
  init(_ command: LoadCommand, _ target: LoadTarget, keys: AppKeys, part: LoadPart) throws {
    let lifetimeSeconds = Int64(command.tokenLifetime.seconds)
    let scenario = try Scenario(argument: command.scenario)
    var roster = Roster(
      devices: part.devices, devicesPerUser: command.devicesPerUser, firstUser: part.firstUser)
    roster.hasStrictApp = command.hasStrictApp(scenario)
    self.init(edges: target.edges) { [roster] user, device in
      try keys.mintToken(
        app: roster.app(ofUser: user) ?? target.app, user: user, device: device,
        lifetimeSeconds: lifetimeSeconds, now: Int64(time(nil)))
    }
    hasStrictApp = roster.hasStrictApp
    if let caFile = target.caFile { trust = try EdgeTrust(caFile: caFile) }
    app = target.app
    self.part = part
    devices = part.devices
    devicesPerUser = command.devicesPerUser
    rampPerSecond = command.ramp.map(part.share)
    reconnectSpreadSeconds = command.reconnectSpread?.seconds
    connectsInFlight = max(1, connectsInFlight / part.count)
    self.scenario = scenario
    signals = command.signals
    unregistered = command.unregistered.value
    seed = target.seed
    keepsSeries = command.plot != nil
    followsNearer = command.nearer
    forwards = command.forwards
    isOneVersion = command.otherCallnode == nil
    mintServerToken = {
      try keys.mintServerToken(app: target.app, lifetimeSeconds: 60, now: Int64(time(nil)))
    }
    reportsWebhooks = command.hasWebhooks(scenario)
    readsHistories = command.readsHistories(scenario)
    showsOngoing = command.ongoing
    hasHook = command.hook
    codec = command.protocol == .pb ? .protobuf : .json
    if let shardCount = target.shardCount {
      isDisturbed = true
      self.shardCount = shardCount
      // An answered call whose sides have both lost their sockets ends after a minute.
      settleSeconds = 75 + (reconnectSpreadSeconds ?? 0)
    }
  }
}
