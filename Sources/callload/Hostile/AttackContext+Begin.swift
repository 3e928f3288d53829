extension AttackContext {
  /// Begins the attack; it goes on until the process ends.
  func begin() {
    switch attack {
    case .pipelinedHTTP: pipelineHTTP()
    case .pingFlood: floodPings()
    case .halfFrames: sendHalfFrames()
    case .slowLoris: sendSlowly()
    case .connectionFlood: floodConnections()
    case .handshakeFlood: floodHandshakes()
    case .badTokens: sendBadTokens()
    case .sessionFlood: floodSessions()
    case .placeFlood: floodPlaces()
    case .ringFlood: floodRings()
    case .hugeDescriptions: sendHugeDescriptions()
    case .candidateFlood: floodCandidates()
    case .garbage: sendGarbage()
    case .appFlood: floodApp()
    }
  }
}
