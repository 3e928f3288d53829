import CallAuth
import CallClient
import CallWire
import Glibc

extension LoadOptions {
  /// Tokens are renewed before they expire.
  private static let tokenLifetimeSeconds: Int64 = 2 * 86_400

  /// The options of a run on these servers.
  init(_ plan: RunPlan, _ servers: Servers) {
    let command = plan.command
    let (keys, app) = (servers.keys, servers.app)
    var roster = plan.roster
    roster.hasStrictApp = command.hasStrictApp(plan.scenario)
    self.init(edges: servers.edgeURLs) { [roster] user, device in
      try keys.mintToken(
        app: roster.app(ofUser: user) ?? app, user: user, device: device,
        lifetimeSeconds: Self.tokenLifetimeSeconds, now: Int64(time(nil)))
    }
    hasStrictApp = roster.hasStrictApp
    trust = servers.trust
    self.app = app
    slice = plan.slice
    (devices, devicesPerUser) = (roster.devices, roster.devicesPerUser)
    firstUser = roster.firstUser
    reconnectSpreadSeconds = command.load.reconnectSpread?.seconds
    connectsInFlight = max(1, connectsInFlight / slice.count)
    scenario = plan.scenario
    signals = command.load.signals
    unregistered = command.load.unregistered.value
    seed = plan.settings.seed
    sleep = plan.sleep
    keepsSeries = command.output.json != nil
    keepsRings = plan.hostile != nil
    followsNearer = command.local.nearer
    forwards = command.forwards
    isOneVersion = command.trouble.otherCallnode == nil
    mintServerToken = {
      try keys.mintServerToken(app: app, lifetimeSeconds: 60, now: Int64(time(nil)))
    }
    reportsWebhooks = command.hasWebhooks(plan.scenario)
    readsHistories = command.readsHistories(plan.scenario)
    showsOngoing = command.judged.ongoing
    hasHook = command.judged.hook
    events = servers.journal == nil ? nil : servers.events
    codec = command.load.protocol == .pb ? .protobuf : .json
    if plan.chaos != nil, let shardCount = servers.local?.shards {
      isDisturbed = true
      self.shardCount = shardCount
      // An answered call whose sides have both lost their sockets ends after a minute.
      settleSeconds = 75 + (reconnectSpreadSeconds ?? 0)
    }
  }
}
