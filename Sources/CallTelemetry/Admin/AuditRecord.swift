internal import FoundationEssentials

/// The record of an operator's order, as JSON in the stream `<cluster>-audit`.
public struct AuditRecord: Codable, Sendable, Equatable {
  public var atMilliseconds: Int64
  /// The operator's NATS user. It is part of the subject, which NATS lets only that user publish to.
  public var operatorName: String
  /// Such as `drain`.
  public var order: String
  /// The node, user or device that the order names.
  public var about: String
  /// The node that carries it out.
  public var node: String
  public var role: String

  public init(
    atMilliseconds: Int64, operatorName: String, order: String, about: String, node: String,
    role: String
  ) {
    self.atMilliseconds = atMilliseconds
    self.operatorName = operatorName
    self.order = order
    self.about = about
    self.node = node
    self.role = role
  }

  enum CodingKeys: String, CodingKey {
    case atMilliseconds = "at_ms"
    case operatorName = "operator"
    case order, about, node, role
  }

  package init?(_ bytes: [UInt8]) {
    guard let record = BoundedJSON.decode(Self.self, bytes) else { return nil }
    self = record
  }

  package var bytes: [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys]
    return (try? encoder.encode(self)).map(Array.init) ?? []
  }
}

/// Acknowledges an order. The node's status shows its progress.
public struct OrderAnswer: Codable, Sendable, Equatable {
  public var node: String
  public var role: String
  /// Why it is not carried out.
  public var refused: String?

  public init(node: String, role: String, refused: String? = nil) {
    self.node = node
    self.role = role
    self.refused = refused
  }

  package var bytes: [UInt8] { (try? JSONEncoder().encode(self)).map(Array.init) ?? [] }
}
