/// What a provider answered to one request.
package struct ProviderAnswer: Sendable, Equatable {
  package var status: Int
  /// Names in lower case; of a repeated one the first.
  package var headers: [String: String]
  package var body: [UInt8]

  package init(status: Int, headers: [String: String] = [:], body: [UInt8] = []) {
    self.status = status
    self.headers = headers
    self.body = body
  }
}

/// What became of one request.
package enum ProviderReply: Sendable, Equatable {
  case answer(ProviderAnswer)
  /// The request never left: it can be repeated without a second delivery.
  case notSent(String)
  /// It left, or may have, and no answer came: the provider may have it.
  case unknown(String)
}
