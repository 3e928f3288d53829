/// The configuration of a sender to Firebase Cloud Messaging.
public struct FCMConfiguration: Sendable, Equatable {
  /// The name in logs and metrics.
  public var name: String
  /// The Firebase project of the apps; empty: that of the service account.
  public var project = ""
  /// The service account's JSON key file from the Google Cloud console.
  public var serviceAccountFile: String
  /// The address of FCM. `http` is allowed on the loopback only.
  public var endpoint = "https://fcm.googleapis.com"
  /// The address for access tokens; nil: that of the service account's file.
  public var tokenEndpoint: String?
  /// PEM certificates that are trusted instead of the system's.
  public var caFile: String?
  public var limits = SenderLimits()

  public init(name: String, serviceAccountFile: String) {
    self.name = name
    self.serviceAccountFile = serviceAccountFile
  }
}

/// A validated configuration.
struct FCMAccess: Sendable {
  var account: ServiceAccount
  /// The URL of `messages:send`.
  var sendURL: String
  var tokenURL: String

  init(_ configuration: FCMConfiguration) throws(SenderConfigurationError) {
    let account = try ServiceAccount.load(
      path: configuration.serviceAccountFile, sender: configuration.name)
    let project = configuration.project.isEmpty ? account.project : configuration.project
    func wrong(_ place: String, _ what: String, _ remedy: String) -> SenderConfigurationError {
      SenderConfigurationError(sender: configuration.name, place: place, what: what, remedy: remedy)
    }
    guard ServiceAccount.isProject(project) else {
      throw wrong("project", "this is no project id", "use the id, not the name or the number")
    }
    guard let endpoint = ServiceAddress.plain(configuration.endpoint) else {
      throw wrong("endpoint", ServiceAddress.rule, "leave it out for Google's own")
    }
    if let token = configuration.tokenEndpoint, ServiceAddress.plain(token) == nil {
      throw wrong("tokenEndpoint", ServiceAddress.rule, "leave it out for the service account's")
    }
    self.account = account
    sendURL = "\(endpoint)/v1/projects/\(project)/messages:send"
    tokenURL = configuration.tokenEndpoint ?? account.tokenURI
  }
}

/// Validates addresses of the configuration.
enum ServiceAddress {
  static let rule = "an address begins with https://; with http:// on the loopback only"

  /// The address without a slash at the end; nil if it breaks the rule.
  static func plain(_ text: String) -> String? {
    guard text.isGraphicASCII else { return nil }
    var address = text[...]
    while address.last == "/" { address = address.dropLast() }
    if address.hasPrefix("https://"), address.utf8.count > 8 { return String(address) }
    for host in ["127.0.0.1", "localhost", "[::1]"] {
      let start = "http://" + host
      guard address.hasPrefix(start) else { continue }
      let rest = address.dropFirst(start.count)
      if rest.isEmpty || rest.first == ":" || rest.first == "/" {
        return rest.contains("@") ? nil : String(address)
      }
    }
    return nil
  }
}
