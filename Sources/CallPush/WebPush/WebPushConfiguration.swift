/// Web Push to browsers and whoever else speaks it (RFC 8030, 8291, 8292).
public struct WebPushConfiguration: Sendable, Equatable {
  /// What logs and metrics call it.
  public var name: String
  /// The VAPID key: PEM, a P-256 private key. Subscriptions are bound to its public half, the
  /// `applicationServerKey`: with another key they all end.
  public var keyFile: String
  /// Whom a push service turns to with questions: `mailto:…` or `https://…`.
  public var subject: String
  /// Push services beside the standard ones: `host`, `*.host` (any name below it), each with
  /// `:port` where it is not 443.
  public var furtherHosts: [String] = []
  /// PEM certificates that are trusted in place of the system's.
  public var caFile: String?
  /// For tests: endpoints may be at addresses of the loopback and of private networks, if
  /// `furtherHosts` has them.
  public var allowsPrivateAddresses = false
  public var limits = WebPushConfiguration.standardLimits

  /// The push services of the browsers: Chrome, Edge and others; Firefox; older Edge and Windows;
  /// Safari.
  public static let standardHosts = [
    "fcm.googleapis.com", "*.push.services.mozilla.com", "*.notify.windows.com",
    "web.push.apple.com", "*.push.apple.com",
  ]

  /// Fewer at a time than of FCM: these are of one push service.
  public static var standardLimits: SenderLimits {
    var limits = SenderLimits()
    limits.inFlightMax = 64
    return limits
  }

  public init(name: String, keyFile: String, subject: String) {
    self.name = name
    self.keyFile = keyFile
    self.subject = subject
  }
}
