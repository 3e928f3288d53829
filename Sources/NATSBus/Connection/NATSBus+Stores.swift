public import CallBus

extension NATSBus {
  public func openJournal(_ options: JournalOptions) async throws -> JetStreamJournal {
    try await JetStreamJournal.open(self, options)
  }

  public func openBucket(_ name: String, _ options: BucketOptions) async throws -> JetStreamBucket {
    try await JetStreamBucket.open(self, name, options)
  }

  public func openWorkQueue(_ options: WorkQueueOptions) async throws -> JetStreamWorkQueue {
    try await JetStreamWorkQueue.open(self, options)
  }

  public func openAudit(_ options: AuditOptions) async throws -> JetStreamAudit {
    try await JetStreamAudit.open(self, options)
  }
}
