public import CallCore

/// One of Apple's two environments. Each server, device token and key belongs to one.
public enum APNsEnvironment: String, Sendable, CaseIterable {
  case production
  /// Also called the sandbox.
  case development
}

/// The values of `apns-push-type`.
public enum APNsPushType: String, Sendable, CaseIterable {
  case alert, background, controls, location, voip, complication, fileprovider, mdm, liveactivity
  case pushtotalk, widgets

  /// The suffix of the topic after the bundle's id; may be empty.
  public var topicSuffix: String {
    switch self {
    case .alert, .background, .mdm: ""
    case .controls: ".push-type.controls"
    case .location: ".location-query"
    case .voip: ".voip"
    case .complication: ".complication"
    case .fileprovider: ".pushkit.fileprovider"
    case .liveactivity: ".push-type.liveactivity"
    case .pushtotalk: ".voip-ptt"
    case .widgets: ".push-type.widgets"
    }
  }

  /// The largest payload, in bytes.
  public var payloadBytesMax: Int { self == .voip ? 5120 : 4096 }
}

/// A received request, not validated yet.
public struct APNsRequest: Sendable, Equatable {
  public struct Field: Sendable, Equatable {
    public var name: String
    public var value: String
    /// The sender put it into HPACK's dynamic table, or took it from there.
    public var indexed: Bool
    public init(_ name: String, _ value: String, indexed: Bool = false) {
      self.name = name
      self.value = value
      self.indexed = indexed
    }
  }

  /// Header fields in their order, pseudo-header fields among them.
  public var fields: [Field]
  /// The body, or its beginning if it is too large for any push.
  public var body: [UInt8]
  /// How long the body was, in bytes.
  public var bodyLength: Int

  public init(fields: [Field], body: [UInt8], bodyLength: Int? = nil) {
    self.fields = fields
    self.body = body
    self.bodyLength = bodyLength ?? body.count
  }

  func first(_ name: String) -> String? {
    fields.first { $0.name == name }?.value
  }
}

/// The answer to a request.
public struct APNsResponse: Sendable, Equatable {
  /// nil: accepted, status 200.
  public var reason: APNsReason?
  /// With status 410: the time since which the token is gone.
  public var timestamp: Timestamp?
  public init(_ reason: APNsReason? = nil, timestamp: Timestamp? = nil) {
    self.reason = reason
    self.timestamp = timestamp
  }

  public static let accepted = APNsResponse()
  public var status: Int { reason?.status ?? 200 }

  /// The response's body: none with status 200; the timestamp in milliseconds, with 410 alone.
  package var body: [UInt8] {
    guard let reason else { return [] }
    guard let timestamp, reason.status == 410 else {
      return Array("{\"reason\":\"\(reason.rawValue)\"}".utf8)
    }
    return Array("{\"reason\":\"\(reason.rawValue)\",\"timestamp\":\(timestamp.milliseconds)}".utf8)
  }
}

/// A push that the rules accept, as the device receives it.
public struct APNsPush: Sendable, Equatable {
  /// `apns-id`: the sender's, or one that the server minted.
  public var id: String
  /// In lower case.
  public var token: String
  public var type: APNsPushType
  public var topic: String
  /// The topic without its suffix.
  public var bundle: String
  public var payload: [UInt8]
  /// In seconds since 1970; 0: only one attempt; nil: absent.
  public var expiration: Int64?
  public var priority: Int
  public var collapseID: String?
  /// When the request was complete.
  public var at: Timestamp
  /// The number of the connection, from 1.
  public var connection: Int

  public init(
    id: String, token: String, type: APNsPushType, topic: String, bundle: String,
    payload: [UInt8], expiration: Int64?, priority: Int = 10, collapseID: String? = nil,
    at: Timestamp, connection: Int
  ) {
    self.id = id
    self.token = token
    self.type = type
    self.topic = topic
    self.bundle = bundle
    self.payload = payload
    self.expiration = expiration
    self.priority = priority
    self.collapseID = collapseID
    self.at = at
    self.connection = connection
  }
}
