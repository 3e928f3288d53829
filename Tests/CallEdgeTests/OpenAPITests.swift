import CallCore
import CallEdge
import CallWire
import Foundation
import Testing

/// Sources/CallEdge/HTTP/openapi.json says what the edge does: every route, its bodies and its errors.
@Suite struct OpenAPITests {
  typealias Object = [String: Any]

  private let document: Object

  init() throws {
    let path = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../../Sources/CallEdge/HTTP/openapi.json")
    let json = try JSONSerialization.jsonObject(with: Data(contentsOf: path))
    document = try #require(json as? Object)
  }

  private static let methods = ["get", "put", "post", "delete", "patch"]

  /// The names of all routes, as the document's `operationId`s have them.
  private static let names: Set<String> = [
    "connect", "registerDevice", "unregisterDevice", "call", "decline", "busy", "health",
    "history", "historyRead", "getRules", "putRules", "deleteRules", "appUser", "appCalls",
    "appHistory", "appHistoryRead", "appRemoveDevice", "appGetRules", "appPutRules",
    "appDeleteRules", "appCall", "appEndCall", "appGetGroup", "appPutGroup", "appDeleteGroup",
    "appGetName", "appPutName", "appDeleteName", "appPlaceCall", "appLiveCalls",
  ]

  /// Without a `default`: a new route has to be named, and then described.
  private static func name(_ route: HTTPRoute) -> String {
    switch route {
    case .connect: "connect"
    case .registerDevice: "registerDevice"
    case .unregisterDevice: "unregisterDevice"
    case .call: "call"
    case .decline: "decline"
    case .busy: "busy"
    case .health: "health"
    case .history: "history"
    case .historyRead: "historyRead"
    case .rules(.get): "getRules"
    case .rules(.put): "putRules"
    case .rules(.delete): "deleteRules"
    case .app(.user): "appUser"
    case .app(.calls): "appCalls"
    case .app(.history): "appHistory"
    case .app(.historyRead): "appHistoryRead"
    case .app(.liveCalls): "appLiveCalls"
    case .app(.removeDevice): "appRemoveDevice"
    case .app(.rules(.get, _)): "appGetRules"
    case .app(.rules(.put, _)): "appPutRules"
    case .app(.rules(.delete, _)): "appDeleteRules"
    case .app(.group(.get, _)): "appGetGroup"
    case .app(.group(.put, _)): "appPutGroup"
    case .app(.group(.delete, _)): "appDeleteGroup"
    case .app(.name(.get, _)): "appGetName"
    case .app(.name(.put, _)): "appPutName"
    case .app(.name(.delete, _)): "appDeleteName"
    case .app(.placeCall): "appPlaceCall"
    case .app(.call): "appCall"
    case .app(.endCall): "appEndCall"
    }
  }

  struct Operation {
    var path: String
    var method: String
    var content: Object

    var id: String { content["operationId"] as? String ?? "" }
    var schemes: Set<String> { Set((content["security"] as? [Object] ?? []).flatMap(\.keys)) }

    /// The path with the examples of its parameters.
    var example: String {
      var path = path
      for case let parameter as Object in content["parameters"] as? [Any] ?? []
      where parameter["in"] as? String == "path" {
        let (name, value) = (parameter["name"] as? String ?? "", parameter["example"] as? String)
        path = path.replacing("{\(name)}", with: value ?? "?")
      }
      return path
    }
  }

  func operations() throws -> [Operation] {
    let paths = try #require(document["paths"] as? [String: Object])
    return paths.flatMap { path, item in
      Self.methods.compactMap { method in
        (item[method] as? Object).map { Operation(path: path, method: method, content: $0) }
      }
    }
  }

  @Test func everyRouteIsDescribedAndEveryDescriptionIsARoute() throws {
    var described: [String] = []
    for operation in try operations() {
      let path = operation.example
      #expect(!path.contains("{"), "\(operation.path) has a parameter without an example")
      let route = try HTTPRoute.find(method: operation.method.uppercased(), path: path[...])
      #expect(Self.name(route) == operation.id)
      described.append(operation.id)
    }
    #expect(Set(described) == Self.names)
    #expect(described.count == Self.names.count)
  }

  @Test func noPathTakesAnotherMethod() throws {
    for (path, operations) in Dictionary(grouping: try operations(), by: \.path) {
      for method in Self.methods where !operations.contains(where: { $0.method == method }) {
        let example = operations[0].example
        do {
          _ = try HTTPRoute.find(method: method.uppercased(), path: example[...])
          Issue.record("\(method) \(path) is not described")
        } catch {
          guard case .method(let allowed) = error else {
            Issue.record("\(method) \(path): \(error)")
            continue
          }
          let described = Set(operations.map { $0.method.uppercased() })
          #expect(Set(allowed.split(separator: ", ").map(String.init)) == described)
        }
      }
    }
  }

  /// The kind of credential that each route takes.
  @Test func securityIsThatOfTheRoute() throws {
    for operation in try operations() {
      #expect(operation.content["security"] is [Object], "\(operation.id)")
      let schemes = operation.schemes
      let route = try HTTPRoute.find(
        method: operation.method.uppercased(), path: operation.example[...])
      switch route {
      case .app: #expect(schemes == ["serverToken"], "\(operation.id)")
      case .call, .decline, .busy:
        #expect(schemes == ["userToken", "pushCapability"], "\(operation.id)")
      case .health: #expect(schemes.isEmpty)
      case .connect, .registerDevice, .unregisterDevice, .history, .historyRead, .rules:
        #expect(schemes == ["userToken"], "\(operation.id)")
      }
    }
  }

  @Test func examplesAreReadByTheCodecs() throws {
    var read: Set<String> = []
    for operation in try operations() {
      if let (schema, bytes) = try body(of: operation) {
        try check(request: schema, bytes)
        read.insert(schema)
      }
      for (status, value) in try #require(operation.content["responses"] as? [String: Object]) {
        guard let response = try resolved(value), response["content"] != nil else { continue }
        let (schema, bytes) = try content(response)
        try check(answer: schema, bytes, Int(status) ?? 0)
        read.insert(schema)
      }
    }
    #expect(
      read == [
        "", "AppCall", "AppCalls", "AppUser", "CallGroup", "CallState", "DisplayName", "Error",
        "HistoryPage", "HistoryRead", "PlaceCall", "Refusal", "Register", "Registered", "UserRules",
      ])
  }

  private func check(request schema: String, _ bytes: [UInt8]) throws {
    switch schema {
    case "Register": _ = try HTTPBodies.register(bytes)
    case "Refusal": _ = try HTTPBodies.decline(bytes)
    case "HistoryRead": _ = try HTTPBodies.historyRead(bytes)
    case "CallGroup": #expect(try HTTPBodies.callGroup(bytes).users.count == 3)
    case "DisplayName": #expect(try HTTPBodies.displayName(bytes) == "Bob Stone")
    case "PlaceCall":
      let body = try HTTPBodies.placeCall(bytes, CallLimits())
      try again(bytes, HTTPBodies.encode(body))
    case "UserRules": #expect(try !HTTPBodies.userRules(bytes).isEmpty)
    default: Issue.record("a body of \(schema)")
    }
  }

  private func check(answer schema: String, _ bytes: [UInt8], _ status: Int) throws {
    switch schema {
    case "": #expect(bytes == Array("{}".utf8))
    case "AppCall": try again(bytes, HTTPBodies.app(.call(#require(HTTPBodies.readAppCall(bytes)))))
    case "AppCalls":
      try again(bytes, HTTPBodies.app(.calls(#require(HTTPBodies.readAppCalls(bytes)))))
    case "AppUser": try again(bytes, HTTPBodies.app(.user(#require(HTTPBodies.readAppUser(bytes)))))
    case "CallGroup":
      try again(bytes, HTTPBodies.callGroup(#require(HTTPBodies.readCallGroup(bytes))))
    case "CallState":
      try again(bytes, HTTPBodies.callState(#require(HTTPBodies.readCallState(bytes))))
    case "DisplayName":
      try again(bytes, HTTPBodies.displayName(#require(HTTPBodies.readDisplayName(bytes))))
    case "HistoryPage":
      try again(bytes, HTTPBodies.history(#require(HTTPBodies.readHistory(bytes))))
    case "Registered":
      try again(bytes, HTTPBodies.registered(#require(HTTPBodies.readRegistered(bytes))))
    case "UserRules":
      try again(bytes, HTTPBodies.userRules(#require(HTTPBodies.readUserRules(bytes))))
    case "Error":
      let error = try #require(HTTPBodies.readError(bytes))
      try again(bytes, HTTPBodies.error(error))
      // The answer of a path that is only for WebSockets has a status of its own.
      #expect(error.code.httpStatus == status || status == 426, "\(error) with \(status)")
    default: Issue.record("an answer of \(schema)")
    }
  }

  /// Expects that the value which was read holds all that the example does.
  private func again(_ example: [UInt8], _ written: [UInt8]) throws {
    #expect(try sorted(example) == sorted(written))
  }

  private func sorted(_ json: [UInt8]) throws -> String {
    let object = try JSONSerialization.jsonObject(with: Data(json))
    let data = try JSONSerialization.data(withJSONObject: object, options: [.sortedKeys])
    return String(decoding: data, as: UTF8.self)
  }

  @Test func everyErrorIsInTheList() throws {
    let schemas = try #require((document["components"] as? Object)?["schemas"] as? [String: Object])
    let outer = try #require(schemas["Error"]?["properties"] as? [String: Object])
    let members = try #require(outer["error"]?["properties"] as? [String: Object])
    let names = (members["name"]?["enum"] as? [Any] ?? []).compactMap { $0 as? String }
    let numbers = (members["code"]?["enum"] as? [Any] ?? []).compactMap { $0 as? Int }
    #expect(names.sorted() == CallError.Code.allCases.map(\.name).sorted())
    #expect(numbers.sorted() == CallError.Code.allCases.map { Int($0.rawValue) }.sorted())
  }

  /// An operation's body; nil: it has none.
  func body(of operation: Operation) throws -> (schema: String, example: [UInt8])? {
    try (operation.content["requestBody"] as? Object).map(content)
  }

  /// A response, or the one that it refers to.
  private func resolved(_ value: Object) throws -> Object? {
    guard let reference = value["$ref"] as? String else { return value }
    let name = String(reference.split(separator: "/").last ?? "")
    let responses = (document["components"] as? Object)?["responses"] as? [String: Object]
    return try #require(responses?[name], "\(reference)")
  }

  /// The name of a content's schema, empty where it has none, and its example.
  private func content(_ value: Object) throws -> (schema: String, example: [UInt8]) {
    let types = try #require(value["content"] as? [String: Object])
    let json = try #require(types["application/json"])
    let reference = (json["schema"] as? Object)?["$ref"] as? String ?? ""
    let name = String(reference.split(separator: "/").last ?? "")
    let example = try JSONSerialization.data(withJSONObject: try #require(json["example"]))
    return (name, Array(example))
  }
}
