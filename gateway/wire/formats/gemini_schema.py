"""The names and words of Google's generative APIs, and the walk over a request made of them.

Invariant: Google's JSON has two spellings of each name (`inlineData`, `inline_data`) and both mean
the same, so every table here holds both. Parts carry no type: a member that is not listed is
free-form data, read whole. Signatures pass only as long base64 text.
Sources: the published API reference and the types of the official SDK (3.6), Nov 2026.
Used by the Gemini and Vertex formats.
"""

from __future__ import annotations

import re
from typing import Any, Final

from gateway.wire.base import Location, words
from gateway.wire.schema import Schema, SchemaWalk


def spellings(text: str) -> frozenset[str]:
    """Return the names of a table in camel case, each also in snake case."""
    names = words(text)
    return names | {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in names}


#: Free-form data: everything in it is text, keys included.
FREE: Final = spellings(
    """
    args response parameters parametersJsonSchema responseSchema responseJsonSchema jsonSchema
    labels headers metadata partMetadata customMetadata structValue sparkData extraBody schema
    """
)

#: Signed or encrypted by the provider.
SEALS: Final = spellings("thoughtSignature continuationToken voiceConsentSignature")

#: Members that hold base64 data, beside a media type.
_DATA: Final = spellings("data bytesBase64Encoded imageBytes videoBytes audioBytes")
_MEDIA: Final = spellings("mimeType")

_URLS: Final = spellings(
    """
    uri url fileUri gcsUri gcsSource outputUri downloadUri endpoint audioUri storageUri
    googleMapsUri sourceUri
    """
)

#: Files the provider has or fetches: nobody reads them here.
_FILES: Final = spellings("fileData")

_FIELDS: Final = (
    FREE
    | SEALS
    | _DATA
    | _MEDIA
    | _URLS
    | _FILES
    | spellings(
        """
    accessToken activityHandling allowedFunctionNames apiAuth apiKey apiKeyConfig apiKeySecret
    apiKeySecretVersion apiKeyString apiSpec apiVersion aspectRatio audioDuration
    audioDurationSeconds audioMetadata audioTimestamp audioTrackExtraction audioTranscription
    audioTranscriptionConfig authConfig authType autoMode autoTruncate batch behavior bitRate
    blockingConfidence boolValue cachedContent candidateCount category code codeExecution
    codeExecutionResult compressionQuality computerUse consentAudio content contentLayers contents
    context createTime credentialSecret customConfigs customVocabulary dataStore dataStoreSpecs
    datastore delivery description details diarization disableAttribution disabledSafetyPolicies
    displayName document documentMetadata documentOcr duration dynamicRetrievalConfig
    dynamicThreshold echoTargetLanguage elasticSearchParams embedContentConfig
    enableAffectiveDialog enableEnhancedCivicAnswers enablePromptInjectionDetection enableWidget
    endOffset endPage endTime engine enterpriseWebSearch environment exaAiSearch examples
    excludeDomains excludedPredefinedFunctions executableCode expireTime externalApi
    featureSelectionPreference fileId fileName fileSearch fileSearchStoreNames filter format fps
    frequencyPenalty functionCall functionCallingConfig functionDeclarations functionResponse
    generateContentRequest generationConfig googleMaps googleSearch googleSearchRetrieval
    googleServiceAccountConfig groundingTypes httpBasicAuthConfig httpElementLocation
    hybridSearch id idToken image imageConfig imageCount imageOutputOptions imageSearch imageSize
    includeServerSideToolInvocations includeThoughts index inlineData inputConfig instances items
    jsonPath key kmsKeyName language languageAuto languageCode languageCodes languageHints latLng
    latitude level llmRanker logprobs longitude manualMode maxOutputTokens maxResults mcpServers
    mediaProcessing mediaResolution message messages metadataFilter method mode model
    modelArmorConfig modelName modelRoutingPreference modelSelectionConfig
    multiSpeakerVoiceConfig name nullValue numHits numTokens numberValue oauthConfig oidcConfig
    outcome output outputCompressionQuality outputDimensionality outputMimeType parallelAiSearch
    partialArgs parts pattern personGeneration places prebuiltVoiceConfig presencePenalty priority
    prominentPeople prompt promptTemplateName ragCorpora ragCorpus ragFileIds ragResources
    ragRetrievalConfig rankService ranking replicatedVoiceConfig request requests resolution
    responseFormat responseLogprobs responseMimeType responseModalities responseTemplateName
    retrieval retrievalConfig role routing routingConfig safetySettings sampleRate scheduling
    searchTemplate searchTypes seed serviceAccount serviceTier sheetIndex similarityTopK
    simpleSearchParams sizeBytes source sourceText speaker speakerLabel speakerVoiceConfigs
    speechConfig speechMetadata spreadsheetMetadata sseReadTimeout startOffset startPage startTime
    stopSequences store storeContext streamFunctionCallArguments streamableHttpTransport
    stringValue style systemInstruction targetLanguageCode taskType temperature terminateOnClose
    text textCount thinkingBudget thinkingConfig thinkingLevel thought threshold timeRangeFilter
    timeout title toolCall toolConfig toolResponse toolType tools topK topP totalTokenCount
    translationConfig ttl type urlContext usageMetadata vectorDistanceThreshold
    vectorSimilarityThreshold vertexAiSearch vertexRagStore video videoDuration
    videoDurationSeconds videoMetadata visibleCells voice voiceConfig voiceName voiceSampleAudio
    webSearch willContinue word wordTimestamp words
    """
    )
)

#: Words out of fixed sets of the API. Anything else under the names of `_TAGS` is text.
_TAGS: Final = _MEDIA | spellings(
    """
    role language outcome category threshold method mode type behavior scheduling toolType
    environment level thinkingLevel mediaResolution mediaProcessing responseMimeType
    responseModalities outputMimeType taskType serviceTier aspectRatio imageSize personGeneration
    prominentPeople apiSpec authType httpElementLocation blockingConfidence nullValue delivery
    featureSelectionPreference modelRoutingPreference contentLayers disabledSafetyPolicies
    """
)
_TAG_WORDS: Final = words(
    """
    user model function system tool PYTHON OUTCOME_OK OUTCOME_FAILED OUTCOME_DEADLINE_EXCEEDED
    HARM_CATEGORY_HARASSMENT HARM_CATEGORY_HATE_SPEECH HARM_CATEGORY_SEXUALLY_EXPLICIT
    HARM_CATEGORY_DANGEROUS_CONTENT HARM_CATEGORY_CIVIC_INTEGRITY HARM_CATEGORY_JAILBREAK
    BLOCK_LOW_AND_ABOVE BLOCK_MEDIUM_AND_ABOVE BLOCK_HIGH_AND_ABOVE BLOCK_ONLY_HIGH BLOCK_NONE OFF
    SEVERITY PROBABILITY AUTO ANY NONE VALIDATED MODE_DYNAMIC SILENT WHEN_IDLE INTERRUPT BLOCKING
    NON_BLOCKING GOOGLE_SEARCH_WEB GOOGLE_SEARCH_IMAGE URL_CONTEXT GOOGLE_MAPS FILE_SEARCH
    MEDIA_PROCESSING ENVIRONMENT_BROWSER ENVIRONMENT_MOBILE ENVIRONMENT_DESKTOP
    MINIMAL LOW MEDIUM HIGH XHIGH STATIC AGENTIC NULL_VALUE NO_AUTH API_KEY_AUTH HTTP_BASIC_AUTH
    GOOGLE_SERVICE_ACCOUNT_AUTH OAUTH OIDC_AUTH HTTP_IN_QUERY HTTP_IN_HEADER HTTP_IN_PATH
    HTTP_IN_BODY HTTP_IN_COOKIE SIMPLE_SEARCH ELASTIC_SEARCH INLINE URI TEXT IMAGE AUDIO VIDEO
    MEDIA_RESOLUTION_LOW MEDIA_RESOLUTION_MEDIUM MEDIA_RESOLUTION_HIGH MEDIA_RESOLUTION_ULTRA_HIGH
    RETRIEVAL_QUERY RETRIEVAL_DOCUMENT SEMANTIC_SIMILARITY CLASSIFICATION CLUSTERING
    QUESTION_ANSWERING FACT_VERIFICATION CODE_RETRIEVAL_QUERY unspecified flex standard priority
    STRING NUMBER INTEGER BOOLEAN ARRAY OBJECT NULL string number integer boolean array object null
    PRIORITIZE_QUALITY BALANCED PRIORITIZE_COST 1:1 3:4 4:3 9:16 16:9 1K 2K 4K
    DONT_ALLOW ALLOW_ADULT ALLOW_ALL PAGE_IMAGE PAGE_TEXT FRAMES TRANSCRIPT
    text/plain text/csv text/html text/markdown text/xml text/x.enum application/json
    application/pdf image/png image/jpeg image/webp image/heic image/gif
    audio/wav audio/mp3 audio/mpeg audio/ogg audio/flac audio/aac video/mp4 video/webm
    """
)

#: Ids of a provider's own random shape. Another id is text.
_ID_BODY: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

#: Model names that are passed unread: a family and version, then words, a size or build, a month.
#: No number of a person fits into that. Of another name, what follows the family is read.
_MODEL_PREFIX: Final = re.compile(
    r"(?:publishers/google/)?(?:models/)?(?:gemini|gemma|learnlm|imagen|veo|lyria|"
    r"(?:text-(?:multilingual-)?)?embedding)-(?:\d{1,2}(?:\.\d)?-)?"
)
_MODEL_BODY: Final = re.compile(
    r"(?:\d{1,3}[bm]?(?:-[a-z]{2,3})?|[a-z]{1,16}(?:-[a-z]{1,16}){0,4}"
    r"(?:-\d{1,3}[bm]?(?:-[a-z]{2,3})?|-\d\d-(?:20)?\d\d)?)(?:@(?:\d{3}|latest|default))?"
)

_TELLING: Final = spellings("accessToken idToken apiKey apiKeyString apiKeySecret credentialSecret")

SCHEMA: Final = Schema(
    name="gemini",
    fields=_FIELDS,
    free=FREE,
    parts=frozenset(("contents", "tools", "requests", "instances")),
    urls=_URLS,
    ids=frozenset(("id",)),
    id_body=_ID_BODY,
    seals=SEALS,
    tags=_TAGS,
    tag_words=_TAG_WORDS,
    model_prefix=_MODEL_PREFIX,
    model_body=_MODEL_BODY,
    telling=_TELLING,
)

_INSTRUCTIONS: Final = spellings("systemInstruction")


class GeminiWalk(SchemaWalk):
    """One request: data and files in parts beside the rest."""

    SCHEMA = SCHEMA

    def field(self, name: str, value: Any, place: Location) -> Any:
        """Redact a member; the system instruction, tens of KB and the same every turn, is
        remembered like a message."""
        if name in _INSTRUCTIONS and isinstance(value, dict):
            return self.part(value, place, self.fields)
        if name in _FILES and isinstance(value, dict):
            self.opaque("file", place)
        return super().field(name, value, place)

    def string(self, name: str, value: str, place: Location) -> str:
        """Redact a string; a model of no known family is a name like any other."""
        if name in self.SCHEMA.models and not _MODEL_PREFIX.match(value):
            return self.scan.string(value)
        return super().string(name, value, place)

    def fields(self, node: dict[str, Any], place: Location) -> dict[str, Any]:
        """Redact an object of the API, and the base64 data in it decoded."""
        if _DATA.isdisjoint(node):
            return super().fields(node, place)
        names = [name for name in node if name in _DATA and isinstance(node[name], str)]
        media = next((node[name] for name in node if name in _MEDIA), "")
        media = media if isinstance(media, str) else ""
        blobs = {name: self.blob(node[name], media, place.key(name)) for name in names}
        rest = super().fields({**node, **dict.fromkeys(names)}, place)
        scanned = {**rest, **blobs}
        return node if scanned == node and list(scanned) == list(node) else scanned
