package import CallAuth
internal import CallBus
package import CallCoordinator
package import CallCore
internal import CallJudge

/// The settings of a run. The same options and seed give the same run.
package struct SimOptions: Sendable {
  package var intensity = SimIntensity.usual
  /// The time in which people call each other and faults occur.
  package var activity: Span = .seconds(40)
  /// The time after that in which everything must settle.
  package var settling: Span = .seconds(26)
  package var shardCount = 8
  package var limits: CallLimits
  /// The kind of most calls; nil: all kinds alike.
  var mostly: CallScript.Kind?
  /// Whether the judge sees what devices see of any cluster, and nothing of its journal and its other stores.
  package var hidesStores = false
  /// Whether the app's server is asked about calls.
  var hasHook = false
  /// Whether the app learns of its calls by webhooks.
  var hasWebhooks = false
  package private(set) var keys: AppKeys
  /// Whether users have rules about calls to them.
  var hasRules = false
  /// Whether the app's server sets users' names, and places calls between two users.
  var hasServer = false
  /// Whether the app's users see their calls on all devices.
  package var showsOngoing = false { didSet { chooseKeys() } }
  /// Whether the app has histories.
  package var keepsHistory = false { didSet { chooseKeys() } }
  /// The outcome of a further call to a user in an answered call; nil: as the cluster says.
  var secondCalls: SecondCalls? { didSet { chooseKeys() } }
  /// How long a call rings that goes on to others. All callers choose a time.
  var forwardedRing = ForwardedRing.anew { didSet { chooseKeys() } }
  /// Whether people call back when a call has left them.
  var callsBack = false
  /// Whether every second app that begins anew shows no call of its former run.
  var appsForget = false
  /// By what the app has: 1 ongoing calls, 2 histories, 4 callers' times for calls that go on, 8 second calls that ring, 16
  /// those that are busy.
  private let keysByTerms: [AppKeys]
  let pushKeys: PushCapabilityKeys
  private let ticketKeys: SessionTicketKeys
  /// The number of the key that signs all tokens.
  private let keyNumber: UInt32
  private let tokens: [UserKey: String]
  /// The token with which the app's server asks.
  let serverToken: String

  static let app = "sim"
  static let cluster = "sim"
  static let registrationBucket = Subjects(cluster: cluster, shardCount: 1).registrationBucket
  static let tokenBucket = Subjects(cluster: cluster, shardCount: 1).tokenBucket

  /// The device whose registration has this key: shard, app, user, device.
  static func who(registrationKey key: String) -> Who? {
    let parts = key.split(separator: ".")
    // That of a user's rules begins with a word.
    return parts.count == 4 && Int(parts[0]) != nil ? Who(encoded: parts[2], parts[3]) : nil
  }

  /// The user whose rules have this key, in the same bucket.
  static func user(rulesKey key: String) -> String? {
    let parts = key.split(separator: ".")
    return parts.count == 4 && parts[0] == "rules" ? Subjects.keyText(parts[3]) : nil
  }
  /// The key without the app's name: all users are of one app.
  static func fingerprint(tokenKey key: String) -> String {
    String(key.prefix { $0 != "." })
  }
  /// The most users of a world. Each has a token.
  static let userCount = 24

  /// Some names are equal by Unicode's rules but differ in their bytes, and are different users.
  package static func user(_ number: Int) -> String {
    switch number {
    case 1: "u\u{e9}"
    case 2: "ue\u{301}"
    case 3: "uK"
    case 4: "u\u{212a}"
    default: "u\(number)"
    }
  }

  /// Whether a device only places calls.
  static func onlyPlaces(_ who: Who) -> Bool { who.device == "d3" }

  /// Whether a device asks to see its user's calls, where the app has that.
  static func asksForOngoing(_ who: Who) -> Bool { who.device != "d2" }

  /// The display name in a user's token. Some have none there: theirs is the one that the app's server sets, if it does.
  static func displayName(_ user: String) -> String? {
    nameless.contains { $0.hasBytes(of: user) } ? nil : "\(user.uppercased()) of \(app)"
  }

  static let nameless = stride(from: 2, to: userCount, by: 3).map { user($0) }

  /// The display name that the app's server gives to a caller in a call that it places.
  static func callerName(_ call: CallID) -> String {
    call.low % 3 == 1 ? "" : "Caller \(call.low % 97)"
  }

  /// The data that a caller's app gives to the callee's apps in a call.
  static func pushData(_ call: CallID) -> String { call.low % 3 == 1 ? "data of \(call)" : "" }

  /// - Throws: when tokens cannot be made, which would be a mistake of the simulation.
  package init() async throws {
    var limits = CallLimits()
    limits.ringTimeout = .seconds(8)
    limits.ringTimeoutMinimum = .seconds(2)
    limits.connectGrace = .seconds(4)
    limits.resumeGraceRinging = .seconds(4)
    limits.resumeGraceAnswered = .seconds(6)
    limits.devicesPerUser = 4
    self.limits = limits
    let secret = "c2ltdWxhdGlvbi1zaW11bGF0aW9uLXNpbXVsYXRpb24tMQ=="
    func read(_ more: String) throws -> AppKeys {
      let file = """
        {"apps":[{"app":"\(Self.app)",\(more)
        "keys":[{"kid":"k","alg":"HS256","secret":"\(secret)"}]}]}
        """
      return try AppKeys(json: Array(file.utf8))
    }
    let parts = [
      #""ongoingCalls":true,"#, #""history":true,"#, #""forwardedRing":"anew","#,
      #""secondCalls":"allow","#, #""secondCalls":"busy","#,
    ]
    // The last two exclude each other.
    keysByTerms = try (0..<24).map { terms in
      try read(parts.indices.map { (terms ^ 4) & 1 << $0 == 0 ? "" : parts[$0] }.joined())
    }
    keys = keysByTerms[0]
    pushKeys = try PushCapabilityKeys([[UInt8](repeating: 7, count: 32)])
    ticketKeys = try SessionTicketKeys([[UInt8](repeating: 8, count: 32)])
    var tokens: [UserKey: String] = [:]
    for number in 0..<Self.userCount {
      let user = Self.user(number)
      tokens[UserKey(app: Self.app, user: user)] = try keys.mintToken(
        app: Self.app, user: user, name: Self.displayName(user), lifetimeSeconds: 86_400,
        now: SimWorld.beginning.microseconds / 1_000_000 - 3600)
    }
    self.tokens = tokens
    serverToken = try keys.mintServerToken(
      app: Self.app, lifetimeSeconds: 1800, now: SimWorld.beginning.microseconds / 1_000_000 - 60)
    keyNumber = try TokenVerifier(keys: keys).verify(
      tokens[UserKey(app: Self.app, user: Self.user(0))] ?? "",
      now: SimWorld.beginning.microseconds / 1_000_000
    ).keyNumber
  }

  /// Whether the app has groups.
  var hasGroups: Bool { hasHook || hasRules }

  /// Whether a user in an answered call is busy.
  var busyWhileInCall: Bool { secondCalls.map { $0 == .busy } ?? limits.busyWhileInCall }

  private mutating func chooseKeys() {
    let second =
      switch secondCalls {
      case .allow: 8
      case .busy: 16
      case nil: 0
      }
    let others = (keepsHistory ? 2 : 0) + (forwardedRing == .caller ? 4 : 0)
    keys = keysByTerms[(showsOngoing ? 1 : 0) + others + second]
  }

  /// How coordinators verify the senders of commands.
  package var authority: CommandAuthority {
    CommandAuthority(
      tokens: TokenAuthority(keys: keys), tickets: TicketKeyring(ticketKeys),
      pushKeys: PushKeyring(pushKeys))
  }

  /// The credential with which coordinators accept a command: for sabotage.
  func credential(for command: Command) -> Credential {
    .ticket(ticketKeys.ticket(for: command, expires: .max, issued: 1, key: keyNumber))
  }

  func token(of user: String) -> String {
    tokens[UserKey(app: Self.app, user: user)] ?? ""
  }

  /// How far an edge's or a gateway's clock is ahead.
  func skew(_ random: inout SimRandom) -> Span {
    intensity == .calm ? .zero : random.skew(.milliseconds(200))
  }
}
